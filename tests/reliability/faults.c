/* Faults below a program's file functions, for LD_PRELOAD: the program dies, or the system refuses, at the N-th file
 * operation on a path below a folder. Operations are counted per process, in the order in which they are called.
 *
 *   FAULT_ROOT   the folder; nothing outside it is counted
 *   FAULT_AT     which operation, from 1; 0 counts only
 *   FAULT_KIND   kill: die before it; partial: write a part of the data, then die; otherwise an errno's number
 *   FAULT_LASTS  1: every later operation that changes something is refused too, as on a full disk
 *   FAULT_LOG    a file that receives a line per operation, outside FAULT_ROOT
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <unistd.h>

enum { READS, CHANGES };

static const char *root, *kind;
static size_t root_length;
static long fault_at, refusal;
static int lasts, log_file = -1;
static atomic_long count;

__attribute__((constructor)) static void read_settings(void) {
    root = getenv("FAULT_ROOT");
    if (root == NULL) return;
    root_length = strlen(root);
    kind = getenv("FAULT_KIND") ? getenv("FAULT_KIND") : "kill";
    fault_at = getenv("FAULT_AT") ? atol(getenv("FAULT_AT")) : 0;
    lasts = getenv("FAULT_LASTS") != NULL;
    refusal = atol(kind);
    if (getenv("FAULT_LOG"))
        log_file = (int)syscall(SYS_openat, AT_FDCWD, getenv("FAULT_LOG"), O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0644);
}

static void die(void) { syscall(SYS_kill, getpid(), SIGKILL); }

/* The path of an open file, or an empty string. */
static void path_of(int file, char *path) {
    char link[64];
    snprintf(link, sizeof link, "/proc/self/fd/%d", file);
    ssize_t length = syscall(SYS_readlinkat, AT_FDCWD, link, path, PATH_MAX - 1);
    path[length > 0 ? length : 0] = 0;
}

/* The absolute path that a folder and a name mean. */
static void join(int folder, const char *name, char *path) {
    if (name[0] == '/') {
        snprintf(path, PATH_MAX, "%s", name);
        return;
    }
    char base[PATH_MAX] = "";
    if (folder == AT_FDCWD) syscall(SYS_getcwd, base, sizeof base);
    else path_of(folder, base);
    size_t length = strlen(base), more = strlen(name);
    path[0] = 0;
    if (length + more + 2 > PATH_MAX) return;
    memcpy(path, base, length);
    path[length] = '/';
    memcpy(path + length + 1, name, more + 1);
}

/* Counts an operation; returns 0 if it may go on, -1 (with errno) if it is refused, 1 if it dies half-way. */
static int fault(const char *operation, const char *path, int changes) {
    if (root == NULL || strncmp(path, root, root_length) != 0) return 0;
    long number = atomic_fetch_add(&count, 1) + 1;
    if (log_file >= 0) {
        char line[PATH_MAX + 64];
        int length = snprintf(line, sizeof line, "%ld %s %s\n", number, operation, path + root_length);
        syscall(SYS_write, log_file, line, length);
    }
    int due = fault_at > 0 && (number == fault_at || (lasts && number > fault_at && changes));
    if (!due) return 0;
    if (refusal) {
        errno = (int)refusal;
        return -1;
    }
    if (strcmp(kind, "partial") == 0 && (strcmp(operation, "write") == 0 || strcmp(operation, "pwrite") == 0)) return 1;
    die();
    return -1;
}

static int fault_file(const char *operation, int file, int changes) {
    char path[PATH_MAX];
    if (root == NULL) return 0;
    int before = errno;
    path_of(file, path);
    errno = before;
    return fault(operation, path, changes);
}

static int fault_name(const char *operation, int folder, const char *name, int changes) {
    char path[PATH_MAX];
    if (root == NULL) return 0;
    int before = errno;
    join(folder, name, path);
    errno = before;
    return fault(operation, path, changes);
}

#define REAL(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))

static int open_changes(int flags) { return (flags & (O_CREAT | O_TRUNC)) || (flags & O_ACCMODE) != O_RDONLY; }

static mode_t mode_of(int flags, va_list list) {
    return (flags & O_CREAT) || (flags & O_TMPFILE) == O_TMPFILE ? va_arg(list, mode_t) : 0;
}

#define OPEN(name, ...)                                                              \
    {                                                                                \
        va_list list;                                                                \
        va_start(list, flags);                                                       \
        mode_t mode = mode_of(flags, list);                                          \
        va_end(list);                                                                \
        if (fault_name("open", folder, path, open_changes(flags))) return -1;        \
        return REAL(name)(__VA_ARGS__, flags, mode);                                 \
    }

int open(const char *path, int flags, ...) { const int folder = AT_FDCWD; OPEN(open, path) }
int open64(const char *path, int flags, ...) { const int folder = AT_FDCWD; OPEN(open64, path) }
int openat(int folder, const char *path, int flags, ...) { OPEN(openat, folder, path) }
int openat64(int folder, const char *path, int flags, ...) { OPEN(openat64, folder, path) }

int close(int file) {
    if (fault_file("close", file, READS)) {
        int refused = errno;
        REAL(close)(file);
        errno = refused;
        return -1;
    }
    return REAL(close)(file);
}

ssize_t write(int file, const void *data, size_t size) {
    int result = fault_file("write", file, CHANGES);
    if (result < 0) return -1;
    if (result > 0) {
        REAL(write)(file, data, size / 2);
        die();
    }
    return REAL(write)(file, data, size);
}

ssize_t writev(int file, const struct iovec *parts, int number) {
    if (fault_file("writev", file, CHANGES)) return -1;
    return REAL(writev)(file, parts, number);
}

#define PWRITE(name)                                                                 \
    ssize_t name(int file, const void *data, size_t size, off_t at) {                \
        int result = fault_file("pwrite", file, CHANGES);                            \
        if (result < 0) return -1;                                                   \
        if (result > 0) {                                                            \
            REAL(name)(file, data, size / 2, at);                                    \
            die();                                                                   \
        }                                                                            \
        return REAL(name)(file, data, size, at);                                     \
    }
PWRITE(pwrite)
PWRITE(pwrite64)

int fsync(int file) { return fault_file("fsync", file, CHANGES) ? -1 : REAL(fsync)(file); }
int fdatasync(int file) { return fault_file("fdatasync", file, CHANGES) ? -1 : REAL(fdatasync)(file); }
int ftruncate(int file, off_t size) { return fault_file("ftruncate", file, CHANGES) ? -1 : REAL(ftruncate)(file, size); }
int ftruncate64(int file, off_t size) { return fault_file("ftruncate", file, CHANGES) ? -1 : REAL(ftruncate64)(file, size); }

int unlink(const char *path) { return fault_name("unlink", AT_FDCWD, path, CHANGES) ? -1 : REAL(unlink)(path); }
int rmdir(const char *path) { return fault_name("rmdir", AT_FDCWD, path, CHANGES) ? -1 : REAL(rmdir)(path); }
int unlinkat(int folder, const char *path, int flags) {
    return fault_name("unlinkat", folder, path, CHANGES) ? -1 : REAL(unlinkat)(folder, path, flags);
}
int mkdir(const char *path, mode_t mode) { return fault_name("mkdir", AT_FDCWD, path, CHANGES) ? -1 : REAL(mkdir)(path, mode); }
int mkdirat(int folder, const char *path, mode_t mode) {
    return fault_name("mkdirat", folder, path, CHANGES) ? -1 : REAL(mkdirat)(folder, path, mode);
}
int rename(const char *old, const char *new) { return fault_name("rename", AT_FDCWD, new, CHANGES) ? -1 : REAL(rename)(old, new); }
int renameat(int from, const char *old, int to, const char *new) {
    return fault_name("renameat", to, new, CHANGES) ? -1 : REAL(renameat)(from, old, to, new);
}
int renameat2(int from, const char *old, int to, const char *new, unsigned flags) {
    return fault_name("renameat2", to, new, CHANGES) ? -1 : REAL(renameat2)(from, old, to, new, flags);
}
int link(const char *old, const char *new) { return fault_name("link", AT_FDCWD, new, CHANGES) ? -1 : REAL(link)(old, new); }
int linkat(int from, const char *old, int to, const char *new, int flags) {
    return fault_name("linkat", to, new, CHANGES) ? -1 : REAL(linkat)(from, old, to, new, flags);
}
