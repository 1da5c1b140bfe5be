/* The malloc family, counted: how many bytes of native heap live now, and the most that ever did since the last reset.

   Loaded by LD_PRELOAD before glibc, whose own functions do the work; a block counts as malloc_usable_size(3) says, so as what
   the allocator gave, not as what was asked for. What goes to mmap(2) directly is not seen: thread stacks, mapped libraries,
   CPython's arenas unless PYTHONMALLOC=malloc. The process reads and resets the counters through dlsym(3), by name. */
#include <errno.h>
#include <malloc.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <unistd.h>

extern void *__libc_malloc(size_t);
extern void *__libc_calloc(size_t, size_t);
extern void *__libc_realloc(void *, size_t);
extern void *__libc_memalign(size_t, size_t);
extern void __libc_free(void *);

static atomic_llong live_bytes;
static atomic_llong peak_bytes;

static void *born(void *block)
{
    if (block != NULL) {
        long long size = (long long)malloc_usable_size(block);
        long long now = atomic_fetch_add(&live_bytes, size) + size;
        long long peak = atomic_load(&peak_bytes);
        while (now > peak && !atomic_compare_exchange_weak(&peak_bytes, &peak, now)) {
        }
    }
    return block;
}

static void dies(void *block)
{
    if (block != NULL)
        atomic_fetch_sub(&live_bytes, (long long)malloc_usable_size(block));
}

long long memhook_live_bytes(void) { return atomic_load(&live_bytes); }
long long memhook_peak_bytes(void) { return atomic_load(&peak_bytes); }
void memhook_reset_peak(void) { atomic_store(&peak_bytes, atomic_load(&live_bytes)); }

void *malloc(size_t size) { return born(__libc_malloc(size)); }
void *calloc(size_t count, size_t size) { return born(__libc_calloc(count, size)); }
void *memalign(size_t alignment, size_t size) { return born(__libc_memalign(alignment, size)); }
void *aligned_alloc(size_t alignment, size_t size) { return born(__libc_memalign(alignment, size)); }
void *valloc(size_t size) { return born(__libc_memalign((size_t)sysconf(_SC_PAGESIZE), size)); }

int posix_memalign(void **result, size_t alignment, size_t size)
{
    void *block = __libc_memalign(alignment, size);
    if (block == NULL)
        return ENOMEM;
    *result = born(block);
    return 0;
}

void *realloc(void *block, size_t size)
{
    size_t before = block == NULL ? 0 : malloc_usable_size(block);
    void *moved = __libc_realloc(block, size);
    if (moved != NULL || size == 0)
        atomic_fetch_sub(&live_bytes, (long long)before);
    return born(moved);
}

void *reallocarray(void *block, size_t count, size_t size)
{
    if (size != 0 && count > SIZE_MAX / size) {
        errno = ENOMEM;
        return NULL;
    }
    return realloc(block, count * size);
}

void free(void *block)
{
    int kept = errno; /* since glibc 2.33 free(3) leaves errno alone */
    dies(block);
    __libc_free(block);
    errno = kept;
}
