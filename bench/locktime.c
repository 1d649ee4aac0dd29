/*-------------------------------------------------------------------------
 *
 * locktime.c
 *	  How long workq's locks are held; for "bench/run locks" alone.
 *
 * The library is linked a second time, with this file and its calls of the
 * server's lock functions wrapped by the linker (see Makefile).  Each process
 * keeps a file "locktime/PID" below the data directory, mapped into memory;
 * where there is no directory locktime, nothing is kept.  The benchmark makes
 * the directory, reads the files and sets them to zero between two
 * measurements.
 *
 * A hold begins when the lock has been got and ends before it is given back.
 * It is measured in wall time and in CPU time of the process: a process that
 * the operating system puts aside while it holds a lock shows in the former
 * alone.  Reading the latter is a system call, a fraction of a microsecond;
 * wall time is read inside of CPU time, and so without it.  While a process
 * holds a lock already, no CPU time is read for further ones: it would make
 * the outer hold longer than it is.
 *
 * Times are counted for each place in the library that acquires a lock, with
 * eight buckets for each power of two nanoseconds.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "miscadmin.h"
#include "pgstat.h"
#include "storage/lwlock.h"

#define N_BUCKETS	320
#define MAX_SITES	160
#define MAX_HELD	16

/* What bench/share.py unpacks; all zero: not used. */
typedef struct LockSite
{
	char		tranche[32];
	uint64		site;			/* offset of the call in the library */
	uint64		count;
	uint64		wall_total;		/* nanoseconds, like the following */
	uint64		wall_max;
	uint64		cpu_of_wall_max;	/* CPU time of that very hold */
	uint64		cpu_total;
	uint64		cpu_max;
	uint32		wall[N_BUCKETS];
	uint32		cpu[N_BUCKETS];
} LockSite;

typedef struct Held
{
	LWLock	   *lock;
	uint64		site;
	uint64		wall;
	uint64		cpu;
} Held;

static LockSite *sites = NULL;
static int	sites_pid = 0;		/* whose they are */
static Held held[MAX_HELD];
static int	n_held = 0;

extern bool __real_LWLockAcquire(LWLock *lock, LWLockMode mode);
extern void __real_LWLockRelease(LWLock *lock);
extern bool __wrap_LWLockAcquire(LWLock *lock, LWLockMode mode);
extern void __wrap_LWLockRelease(LWLock *lock);

static uint64
clock_ns(clockid_t clock)
{
	struct timespec t;

	clock_gettime(clock, &t);
	return (uint64) t.tv_sec * UINT64CONST(1000000000) + t.tv_nsec;
}

/*
 * Map this process' file.  Failing leaves sites NULL: nothing is kept.
 */
static void
sites_map(void)
{
	char		path[MAXPGPATH];
	int			fd;

	sites_pid = MyProcPid;
	sites = NULL;
	n_held = 0;
	snprintf(path, sizeof(path), "locktime/%d", MyProcPid);
	fd = open(path, O_RDWR | O_CREAT, 0644);
	if (fd < 0)
		return;
	if (ftruncate(fd, MAX_SITES * sizeof(LockSite)) == 0)
	{
		void	   *area = mmap(NULL, MAX_SITES * sizeof(LockSite),
								PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);

		if (area != MAP_FAILED)
			sites = area;
	}
	close(fd);
}

/*
 * Where in the library an address is.
 */
static uint64
offset_of(void *address)
{
	static char *base = NULL;
	Dl_info		info;

	if (base == NULL && dladdr((void *) sites_map, &info) != 0)
		base = info.dli_fbase;
	return (char *) address - base;
}

static int
bucket_of(uint64 ns)
{
	int			log = 63 - __builtin_clzll(ns | 1);
	int			bucket;

	if (log < 3)
		return (int) ns;
	bucket = (log - 2) * 8 + (int) ((ns >> (log - 3)) & 7);
	return Min(bucket, N_BUCKETS - 1);
}

/*
 * The counts of a place and a lock, a new one if need be; NULL if there is no
 * room.
 */
static LockSite *
site_find(uint64 site, LWLock *lock)
{
	const char *tranche = GetLWLockIdentifier(PG_WAIT_LWLOCK, lock->tranche);
	int			i;

	for (i = 0; i < MAX_SITES; i++)
	{
		LockSite   *s = &sites[(site + i) % MAX_SITES];

		if (s->site == 0)
		{
			strlcpy(s->tranche, tranche, sizeof(s->tranche));
			s->site = site;
			return s;
		}
		if (s->site == site &&
			strncmp(s->tranche, tranche, sizeof(s->tranche) - 1) == 0)
			return s;
	}
	return NULL;
}

static void
count_hold(const Held *hold, uint64 wall, uint64 cpu)
{
	LockSite   *s = site_find(hold->site, hold->lock);

	if (s == NULL)
		return;
	wall = wall > hold->wall ? wall - hold->wall : 0;
	cpu = hold->cpu > 0 && cpu > hold->cpu ? cpu - hold->cpu : 0;
	s->count++;
	s->wall_total += wall;
	s->cpu_total += cpu;
	s->wall[bucket_of(wall)]++;
	s->cpu[bucket_of(cpu)]++;
	if (wall > s->wall_max)
	{
		s->wall_max = wall;
		s->cpu_of_wall_max = cpu;
	}
	s->cpu_max = Max(s->cpu_max, cpu);
}

/*
 * An error gives locks back without us.  So if this one is noted as held, or
 * more than can be, that is what is left of an error.
 */
static void
forget_lost(const LWLock *lock)
{
	int			i;

	if (n_held == MAX_HELD)
		n_held = 0;
	for (i = 0; i < n_held; i++)
	{
		if (held[i].lock == lock)
			n_held = i;
	}
}

bool
__wrap_LWLockAcquire(LWLock *lock, LWLockMode mode)
{
	bool		result;
	Held	   *hold;

	if (sites_pid != MyProcPid)
		sites_map();
	result = __real_LWLockAcquire(lock, mode);
	if (sites == NULL)
		return result;
	forget_lost(lock);
	hold = &held[n_held++];
	hold->lock = lock;
	hold->site = offset_of(__builtin_return_address(0));
	hold->cpu = n_held == 1 ? clock_ns(CLOCK_THREAD_CPUTIME_ID) : 0;
	hold->wall = clock_ns(CLOCK_MONOTONIC);
	return result;
}

void
__wrap_LWLockRelease(LWLock *lock)
{
	uint64		wall;
	uint64		cpu = 0;
	Held		hold;
	int			i;

	if (sites == NULL || sites_pid != MyProcPid)
	{
		__real_LWLockRelease(lock);
		return;
	}
	wall = clock_ns(CLOCK_MONOTONIC);
	if (n_held == 1)
		cpu = clock_ns(CLOCK_THREAD_CPUTIME_ID);
	__real_LWLockRelease(lock);
	for (i = n_held - 1; i >= 0 && held[i].lock != lock; i--)
		;
	if (i < 0)
		return;
	hold = held[i];
	n_held--;
	memmove(&held[i], &held[i + 1], (n_held - i) * sizeof(Held));
	count_hold(&hold, wall, cpu);
}
