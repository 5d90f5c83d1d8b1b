/* SPDX-License-Identifier: MIT */
#include "app/store_call.h"

#include <poll.h>

/* A store that waits for the lock or a slow disk answers in seconds; this is for one that cannot.
 */
enum { WAIT_MS = 1000, WAITS_MAX = 60 };

int hx_store_call(struct hx_store *store, struct hx_store_request *request)
{
    store->ops->submit(store, request);
    store->ops->flush(store);
    for (int waits = 0; waits < WAITS_MAX; waits++) {
        struct hx_store_request *done = store->ops->take_done(store);
        if (done == request)
            return 0;
        hx_assert(done == NULL);
        struct pollfd wake = {.fd = store->ops->wake_fd(store), .events = POLLIN};
        if (wake.fd < 0)
            break;                     /* such a store completes in flush or not at all */
        (void)poll(&wake, 1, WAIT_MS); /* interrupted or late: it is asked again */
    }
    return HX_STORE_CALL_IN_DOUBT;
}
