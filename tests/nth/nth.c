/* SPDX-License-Identifier: MIT */
#include "nth.h"

#include <dlfcn.h>
#include <errno.h>
#include <execinfo.h>
#include <fcntl.h>
#include <link.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

enum {
    STACK_DEPTH = 40, /* looked at */
    STACK_KEPT = 16,  /* what makes two stacks different */
    SEEN_COUNT = 1 << 16,
    MODULES_MAX = 64
};

struct module {
    uintptr_t base, end;
    uint64_t hash;
    char name[64]; /* "" = the program itself */
};

/* Shared with the processes that the program forks, so that one call fails in all of them. */
struct shared {
    _Atomic unsigned long calls;
    _Atomic unsigned long met; /* how often the stack that is to fail was seen */
    _Atomic int is_fired;
    _Atomic uint64_t seen[SEEN_COUNT];
};

static struct module modules[MODULES_MAX];
static int module_count;
static struct shared *shared;
static int watched = -1; /* an nth_kind */
static const char *log_path;
static uint64_t wanted_stack;
static uintptr_t wanted_caller; /* spares us to look at every other stack */
static unsigned long wanted_number = 1;
static const char *wanted_fault;
static _Thread_local bool is_busy;

static _Atomic unsigned long countdown;
static char fired[64];

static uint64_t mix(uint64_t hash, uint64_t value)
{
    for (int i = 0; i < 8; i++)
        hash = (hash ^ (value >> (8 * i) & 0xff)) * 0x100000001b3;
    return hash;
}

static int note_module(struct dl_phdr_info *info, size_t size, void *arg)
{
    (void)size;
    (void)arg;
    if (module_count == MODULES_MAX)
        return 1;
    struct module *module = &modules[module_count++];
    const char *slash = strrchr(info->dlpi_name, '/');
    snprintf(module->name, sizeof(module->name), "%s", slash ? slash + 1 : info->dlpi_name);
    module->base = info->dlpi_addr;
    module->hash = 0xcbf29ce484222325;
    for (const char *at = module->name; *at != '\0'; at++)
        module->hash = mix(module->hash, (unsigned char)*at);
    for (int i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *segment = &info->dlpi_phdr[i];
        uintptr_t end = info->dlpi_addr + segment->p_vaddr + segment->p_memsz;
        if (segment->p_type == PT_LOAD && end > module->end)
            module->end = end;
    }
    return 0;
}

static const struct module *module_of(const void *address)
{
    uintptr_t at = (uintptr_t)address;
    for (int i = 0; i < module_count; i++) {
        if (at >= modules[i].base && at < modules[i].end)
            return &modules[i];
    }
    return NULL;
}

static void say(const char *line, size_t len)
{
    int fd = log_path == NULL ? -1
                              : (int)syscall(SYS_openat, AT_FDCWD, log_path,
                                             O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0600);
    if (fd < 0)
        return;
    (void)!syscall(SYS_write, fd, line, len);
    syscall(SYS_close, fd);
}

/* For the reader of a crash: tools turn these into lines of the sources. */
static void crashed(int number)
{
    void *frames[STACK_DEPTH];
    int count = backtrace(frames, STACK_DEPTH);
    char line[4096];
    int len = snprintf(line, sizeof(line), "crash %d", number);
    for (int i = 0; i < count && len < (int)sizeof(line) - 128; i++) {
        const struct module *module = module_of(frames[i]);
        if (module != NULL)
            len += snprintf(line + len, sizeof(line) - (size_t)len, " %s+%lx", module->name,
                            (unsigned long)((uintptr_t)frames[i] - module->base));
    }
    line[len++] = '\n';
    say(line, (size_t)len);
    struct sigaction normal = {.sa_handler = SIG_DFL};
    sigaction(number, &normal, NULL);
    raise(number);
}

static uintptr_t address_of(const char *text)
{
    const char *plus = text != NULL ? strrchr(text, '+') : NULL;
    for (int i = 0; plus != NULL && i < module_count; i++) {
        size_t len = (size_t)(plus - text);
        if (strlen(modules[i].name) == len && memcmp(modules[i].name, text, len) == 0)
            return modules[i].base + strtoull(plus + 1, NULL, 16);
    }
    return 0;
}

__attribute__((constructor)) static void begin(void)
{
    void *warm[2];
    is_busy = true;
    (void)backtrace(warm, 2); /* loads what it needs now, and not below an allocation */
    dl_iterate_phdr(note_module, NULL);
    shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (shared == MAP_FAILED)
        abort();
    const char *kind = getenv("HX_NTH_KIND"), *stack = getenv("HX_NTH_STACK");
    const char *number = getenv("HX_NTH_NTH"), *armed = getenv("HX_NTH_ARM");
    log_path = getenv("HX_NTH_LOG");
    if (armed != NULL)
        nth_arm(strtoul(armed, NULL, 10));
    if (kind != NULL) {
        watched = strcmp(kind, "memory") == 0 ? NTH_MEMORY : NTH_CALLS;
        wanted_fault = getenv("HX_NTH_FAULT");
        wanted_stack = stack != NULL ? strtoull(stack, NULL, 16) : 0;
        wanted_caller = address_of(getenv("HX_NTH_CALLER"));
        wanted_number = number != NULL ? strtoul(number, NULL, 10) : 1;
        unsetenv("LD_PRELOAD"); /* only this program, and what it forks */
        struct sigaction ours = {.sa_handler = crashed, .sa_flags = SA_RESETHAND | SA_NODEFER};
        sigaction(SIGSEGV, &ours, NULL);
        sigaction(SIGBUS, &ours, NULL);
        sigaction(SIGFPE, &ours, NULL);
        sigaction(SIGABRT, &ours, NULL);
        void (*filter)(const char *) =
            (void (*)(const char *))(uintptr_t)dlsym(RTLD_DEFAULT, "cmocka_set_test_filter");
        if (filter != NULL && getenv("HX_NTH_TEST") != NULL)
            filter(getenv("HX_NTH_TEST"));
    }
    is_busy = false;
}

/* What a test that ends early leaves behind is removed by who started it. */
char *mkdtemp(char *template)
{
    char *(*next)(char *) = (char *(*)(char *))(uintptr_t)nth_next("mkdtemp");
    char *path = next(template), line[4096];
    if (path != NULL && watched >= 0)
        say(line, (size_t)snprintf(line, sizeof(line), "dir %s\n", path));
    return path;
}

/* cmocka makes a failed test of a crash; here a crash stays one. */
sighandler_t signal(int number, sighandler_t handler)
{
    static sighandler_t (*next)(int, sighandler_t);
    if (next == NULL)
        next = (sighandler_t(*)(int, sighandler_t))(uintptr_t)nth_next("signal");
    bool is_crash = number == SIGSEGV || number == SIGBUS || number == SIGFPE || number == SIGILL;
    return is_crash && watched >= 0 ? SIG_DFL : next(number, handler);
}

void *nth_next(const char *name)
{
    bool was_busy = is_busy;
    is_busy = true;
    void *function = dlsym(RTLD_NEXT, name);
    is_busy = was_busy;
    if (function == NULL)
        abort();
    return function;
}

static const struct {
    const char *name;
    int number;
} errnos[] = {
    {"SHORT", NTH_SHORT},
    {"EINTR", EINTR},
    {"EAGAIN", EAGAIN},
    {"EIO", EIO},
    {"ENOSPC", ENOSPC},
    {"EMFILE", EMFILE},
    {"ENOMEM", ENOMEM},
    {"ECONNRESET", ECONNRESET},
    {"EPIPE", EPIPE},
    {"ECONNABORTED", ECONNABORTED},
    {"ECONNREFUSED", ECONNREFUSED},
    {"ENOLCK", ENOLCK},
    {"ENOBUFS", ENOBUFS},
    {"EADDRINUSE", EADDRINUSE},
    {"EACCES", EACCES},
    {"EINVAL", EINVAL},
    {"EPERM", EPERM},
};

static int number_of(const char *name, size_t len)
{
    for (size_t i = 0; i < sizeof(errnos) / sizeof(errnos[0]); i++) {
        if (strlen(errnos[i].name) == len && memcmp(errnos[i].name, name, len) == 0)
            return errnos[i].number;
    }
    abort();
}

/* The program's own frames and its libraries', from the caller on; returns the count. */
static int frames_from(const void *caller, void *frames[STACK_DEPTH], uint64_t *ret_hash)
{
    int count = backtrace(frames, STACK_DEPTH), first = 0;
    while (first < count && frames[first] != caller)
        first++;
    if (first == count)
        first = 0;
    count = count - first < STACK_KEPT ? count - first : STACK_KEPT;
    memmove(frames, frames + first, (size_t)count * sizeof(*frames));
    uint64_t hash = 0xcbf29ce484222325;
    for (int i = 0; i < count; i++) {
        const struct module *module = module_of(frames[i]);
        hash = mix(hash, module == NULL ? 0 : module->hash);
        hash = mix(hash, module == NULL ? 0 : (uintptr_t)frames[i] - module->base);
    }
    *ret_hash = hash;
    return count;
}

static bool is_first_sight(uint64_t hash)
{
    for (size_t i = 0; i < SEEN_COUNT; i++) {
        _Atomic uint64_t *slot = &shared->seen[(hash + i) % SEEN_COUNT];
        uint64_t empty = 0;
        if (atomic_compare_exchange_strong(slot, &empty, hash))
            return true;
        if (empty == hash)
            return false;
    }
    return false;
}

static void note_stack(const char *name, const char *faults, uint64_t hash, void **frames,
                       int count)
{
    char line[4096];
    int len = snprintf(line, sizeof(line), "stack %016llx %s (%s)", (unsigned long long)hash, name,
                       faults);
    for (int i = 0; i < count; i++) {
        const struct module *module = module_of(frames[i]);
        if (module == NULL)
            len += snprintf(line + len, sizeof(line) - (size_t)len, " ?");
        else
            len += snprintf(line + len, sizeof(line) - (size_t)len, " %s+%lx", module->name,
                            (unsigned long)((uintptr_t)frames[i] - module->base));
    }
    line[len++] = '\n';
    say(line, (size_t)len);
}

/* Counted, for programs that are linked with this. */
static int counted_fault(const char *name, const char *faults)
{
    for (const char *at = faults; *at != '\0';) {
        size_t len = strcspn(at, " ");
        unsigned long left = atomic_load(&countdown);
        if (left == 0)
            return 0;
        atomic_store(&countdown, left - 1);
        if (left == 1) {
            const char *fault = *at == '~' ? at + 1 : at;
            size_t fault_len = len - (size_t)(fault - at);
            snprintf(fired, sizeof(fired), "%s %.*s", name, (int)fault_len, fault);
            say(fired, strlen(fired));
            return number_of(fault, fault_len);
        }
        at += len + (at[len] == ' ');
    }
    return 0;
}

int nth_fault(enum nth_kind kind, const char *name, const void *caller, const char *faults)
{
    if (is_busy || *faults == '\0')
        return 0;
    if (atomic_load_explicit(&countdown, memory_order_relaxed) != 0)
        return counted_fault(name, faults);
    if (watched != (int)kind || shared == NULL)
        return 0;
    shared->calls++;
    if (wanted_stack != 0 && (shared->is_fired || (uintptr_t)caller != wanted_caller))
        return 0;
    void *frames[STACK_DEPTH];
    uint64_t hash;
    int saved_errno = errno, fault = 0;
    is_busy = true;
    int count = frames_from(caller, frames, &hash);
    if (wanted_stack == 0) {
        if (is_first_sight(hash))
            note_stack(name, faults, hash, frames, count);
    } else if (hash == wanted_stack && strstr(faults, wanted_fault) != NULL &&
               ++shared->met == wanted_number) {
        shared->is_fired = 1;
        fault = number_of(wanted_fault, strlen(wanted_fault));
        say("fired\n", 6);
    }
    is_busy = false;
    errno = saved_errno;
    return fault;
}

void nth_arm(unsigned long number)
{
    fired[0] = '\0';
    atomic_store(&countdown, number);
}

void nth_disarm(void)
{
    atomic_store(&countdown, 0);
}

const char *nth_fired(void)
{
    return fired;
}
