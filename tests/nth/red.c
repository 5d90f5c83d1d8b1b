/* SPDX-License-Identifier: MIT */
/*
 * A program with one fault of each kind that tests/nth/run must find, or its green means nothing.
 */
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

static void dies_without_memory(void)
{
    char *text = malloc(16);
    volatile char *first = text;

    first[0] = 'x';
    free(text);
}

static void takes_a_signal_for_the_end(void)
{
    int ends[2];
    char byte = 'x';

    if (pipe2(ends, O_CLOEXEC) != 0 || write(ends[1], &byte, 1) != 1)
        _exit(0);
    if (read(ends[0], &byte, 1) != 1)
        _exit(1);
    (void)close(ends[0]);
    (void)close(ends[1]);
}

static void tries_for_ever(void)
{
    int fd = open("/dev/null", O_RDONLY | O_CLOEXEC);

    while (fd < 0)
        (void)pause();
    (void)close(fd);
}

static void leaves_a_process(void)
{
    pid_t child = fork();

    if (child == 0) {
        (void)setsid();
        for (;;)
            (void)pause();
    }
    if (dup2(STDERR_FILENO, 100) < 0)
        return;
    (void)close(100);
    if (child > 0)
        (void)kill(child, SIGKILL);
}

int main(void)
{
    dies_without_memory();
    takes_a_signal_for_the_end();
    tries_for_ever();
    leaves_a_process();
    return 0;
}
