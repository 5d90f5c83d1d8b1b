/* SPDX-License-Identifier: MIT */
/*
 * A child that misbehaves in one named way. `stub-child WAY [ARGUMENT]`
 *
 *   echo           writes each line back, ends at the end of its input
 *   banner         writes a line before it reads anything, then as echo
 *   exit N         complains on standard error and exits with status N
 *   linger         ignores the end of its input
 *   stubborn       ignores the end of its input and TERM
 *   deaf           reads nothing
 *   closes-output  closes its standard output after the first line and lives on
 *   closes-input   closes its standard input, then answers once a second process says so (SIGUSR1)
 *   giant N        answers each line with one of N bytes
 *   drip           as echo, one byte for each write
 *   notes FILE     appends every byte that it reads to the file, then writes it back
 *   unended        writes each line back without a newline, and exits
 *   brood          leaves behind a process in a session of its own that ignores TERM and keeps
 * every descriptor, then as echo descriptors    writes one line with the numbers of its open
 * descriptors
 */
#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>
#include <unistd.h>

static void rest(void)
{
    for (;;)
        (void)pause();
}

static void write_all(const char *bytes, size_t len, size_t step)
{
    while (len > 0) {
        ssize_t sent = write(STDOUT_FILENO, bytes, len < step ? len : step);
        if (sent <= 0)
            _exit(3);
        bytes += sent;
        len -= (size_t)sent;
    }
}

static void echo(size_t step)
{
    char *line = NULL;
    size_t capacity = 0;
    ssize_t len;

    while ((len = getline(&line, &capacity, stdin)) > 0)
        write_all(line, (size_t)len, step);
    free(line);
}

static void giant(size_t size)
{
    char *line = NULL;
    size_t capacity = 0;
    char *answer = malloc(size + 1);

    if (answer == NULL)
        _exit(4);
    memset(answer, 'g', size);
    answer[size] = '\n';
    while (getline(&line, &capacity, stdin) > 0)
        write_all(answer, size + 1, size + 1);
    free(answer);
    free(line);
}

static void notes(const char *path)
{
    char bytes[1 << 16];
    ssize_t len;
    int fd = open(path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0600);

    while ((len = read(STDIN_FILENO, bytes, sizeof bytes)) > 0) {
        if (write(fd, bytes, (size_t)len) != len)
            _exit(6);
        write_all(bytes, (size_t)len, (size_t)len);
    }
}

static void brood(void)
{
    if (fork() == 0) {
        (void)setsid();
        (void)signal(SIGTERM, SIG_IGN);
        if (fork() != 0)
            _exit(0);
        rest();
    }
}

static void unended(void)
{
    char *line = NULL;
    size_t capacity = 0;
    ssize_t len = getline(&line, &capacity, stdin);

    if (len > 0)
        write_all(line, (size_t)len - 1, (size_t)len);
    free(line);
}

static void descriptors(void)
{
    char text[512] = "";
    size_t len = 0;
    DIR *dir = opendir("/proc/self/fd");
    const struct dirent *entry;

    if (dir == NULL)
        _exit(5);
    for (int fd = 0; fd < 256; fd++) {
        rewinddir(dir);
        while ((entry = readdir(dir)) != NULL)
            if (entry->d_name[0] != '.' && strtol(entry->d_name, NULL, 10) == fd &&
                fd != dirfd(dir))
                len += (size_t)snprintf(text + len, sizeof text - len, "%d ", fd);
    }
    (void)closedir(dir);
    text[len] = '\n';
    write_all(text, len + 1, len + 1);
    echo(SIZE_MAX);
}

static void first_line_back(void)
{
    char *line = NULL;
    size_t capacity = 0;
    ssize_t len = getline(&line, &capacity, stdin);

    if (len > 0)
        write_all(line, (size_t)len, (size_t)len);
    free(line);
}

static void closes_input(void)
{
    sigset_t wanted;
    int number;

    (void)sigemptyset(&wanted);
    (void)sigaddset(&wanted, SIGUSR1);
    (void)sigprocmask(SIG_BLOCK, &wanted, NULL);
    (void)close(STDIN_FILENO);
    write_all("closed\n", 7, 7);
    (void)sigwait(&wanted, &number);
    write_all("late\n", 5, 5);
}

int main(int argc, char **argv)
{
    const char *way = argc > 1 ? argv[1] : "";
    long argument = argc > 2 ? strtol(argv[2], NULL, 10) : 0;

    if (strcmp(way, "exit") == 0) {
        fputs("stub: cannot start\n", stderr);
        return (int)argument;
    }
    if (strcmp(way, "banner") == 0)
        write_all("banner\n", 7, 7);
    if (strcmp(way, "stubborn") == 0)
        (void)signal(SIGTERM, SIG_IGN);
    if (strcmp(way, "brood") == 0)
        brood();
    if (strcmp(way, "deaf") == 0)
        rest();
    if (strcmp(way, "closes-input") == 0) {
        closes_input();
    } else if (strcmp(way, "closes-output") == 0) {
        first_line_back();
        (void)close(STDOUT_FILENO);
        rest();
    } else if (strcmp(way, "giant") == 0) {
        giant((size_t)argument);
    } else if (strcmp(way, "notes") == 0 && argc > 2) {
        notes(argv[2]);
    } else if (strcmp(way, "unended") == 0) {
        unended();
    } else if (strcmp(way, "descriptors") == 0) {
        descriptors();
    } else {
        echo(strcmp(way, "drip") == 0 ? 1 : SIZE_MAX);
    }
    if (strcmp(way, "linger") == 0 || strcmp(way, "stubborn") == 0)
        rest();
    return 0;
}
