/* SPDX-License-Identifier: MIT */
/*
 * The two processes of `hapax run`: the front, which the client started and may kill, and the
 * keeper, which does the work and outlives it.
 *
 *     static int keeper_main(const struct hx_keeper_fds *fds, void *arg)
 *     {
 *         options.in_fd = fds->in_fd; ...           // hx_stdio_front_new() takes these three
 *         on HX_PEER_FRONT_GONE:
 *             down->ops->close(down);               // the client's stdin and stdout
 *             hx_keeper_drop_stderr();              // and its stderr: now it sees the death
 *         return status;                            // becomes the front's exit status
 *     }
 *
 *     return hx_front_run(keeper_main, arg);        // in the process that the client started
 */
#ifndef HX_APP_FRONT_H
#define HX_APP_FRONT_H

/* Owned by keeper_main. Standard error stays descriptor 2; 0 and 1 are /dev/null. */
struct hx_keeper_fds {
    int in_fd;   /* the client's requests */
    int out_fd;  /* answers to the client */
    int life_fd; /* ends when the front is dead */
};

/* The keeper could not be started, or ended without a word (it was killed). */
#define HX_FRONT_KEEPER_LOST 70

/* Called before any thread is started and before anything is opened: descriptors above 2 are
 * closed. Returns in the front only, when the keeper has ended, with the exit status that
 * keeper_main returned. A front that is killed or gets TERM, INT or HUP ends at once and the keeper
 * sees the end of its life pipe; only as PID 1, whose end would be everybody's, it waits for the
 * keeper. */
int hx_front_run(int (*keeper_main)(const struct hx_keeper_fds *fds, void *arg), void *arg);

/* Standard error becomes one of our own that does not block: no word that we say may wait for
 * somebody who does not read. */
void hx_own_stderr(void);

/* Lets go of the client's standard error; what is logged from now on goes nowhere. A held one would
 * keep some clients from noticing the death for seconds. */
void hx_keeper_drop_stderr(void);

/* The front ends now, with this exit status; the keeper goes on. Of several calls, the end of
 * keeper_main among them, the first counts. */
void hx_keeper_let_go(int status);

#endif
