/* The failing VFS: see sqlite_kit.h. Each file is the usual VFS's file behind a head of ours. */
#include "tests/unit/sqlite_kit.h"

#include <sqlite3.h>
#include <stddef.h>

#include "common/sqlite.h"

struct head {
	sqlite3_file base;
	sqlite3_file *real;
};

/* Where the usual file begins behind the head. */
enum { HEAD = (sizeof(struct head) + sizeof(max_align_t) - 1) / sizeof(max_align_t) * sizeof(max_align_t) };

const struct sqlite_fault sqlite_faults[] = {
	{"no file can be opened", SQLITE_CALL_OPEN, 1, SQLITE_CANTOPEN},
	{"an error at reading", SQLITE_CALL_READ, 1, SQLITE_IOERR_READ},
	{"an error at writing", SQLITE_CALL_WRITE, 1, SQLITE_IOERR_WRITE},
	{"a full disk", SQLITE_CALL_WRITE, 1, SQLITE_FULL},
	{"a disk that is full for a while", SQLITE_CALL_WRITE | SQLITE_CALL_TRUNCATE, 4, SQLITE_FULL},
	{"an error at syncing", SQLITE_CALL_SYNC, 1, SQLITE_IOERR_FSYNC},
	{"an error at truncating", SQLITE_CALL_TRUNCATE, 1, SQLITE_IOERR_TRUNCATE},
	{"an error at deleting", SQLITE_CALL_DELETE, 1, SQLITE_IOERR_DELETE},
	{"a lock that somebody has", SQLITE_CALL_LOCK, 1, SQLITE_BUSY},
	{"an error at locking", SQLITE_CALL_LOCK, 1, SQLITE_IOERR_LOCK},
	{"an error at looking", SQLITE_CALL_LOOK, 1, SQLITE_IOERR_FSTAT},
	/* Three looks at a page that all fail are damage (common/sqlite.h). */
	{"errors for a while", ~0U, 2, SQLITE_IOERR},
	{NULL, 0, 0, 0},
};

static sqlite3_vfs *real_vfs, vfs;
static unsigned armed;
static int before, left, fault_code, failures, files;
static bool held;

void sqlite_kit_arm(unsigned calls, int n, int times, int code)
{
	armed = calls;
	before = n - 1;
	left = times;
	fault_code = code;
	failures = 0;
}

void sqlite_kit_hold(bool on)
{
	held = on;
}

bool sqlite_kit_failed(void)
{
	armed = 0;
	return failures > 0;
}

int sqlite_kit_files(void)
{
	return files;
}

static bool fails(enum sqlite_call call)
{
	if (held || (armed & (unsigned)call) == 0 || left == 0)
		return false;
	if (before > 0) {
		before--;
		return false;
	}
	left--;
	failures++;
	return true;
}

static sqlite3_file *real_of(sqlite3_file *file)
{
	return ((struct head *)file)->real;
}

/* ---- files ---- */

static int file_close(sqlite3_file *file)
{
	files--;
	return real_of(file)->pMethods->xClose(real_of(file));
}

static int file_read(sqlite3_file *file, void *data, int len, sqlite3_int64 at)
{
	return fails(SQLITE_CALL_READ) ? fault_code : real_of(file)->pMethods->xRead(real_of(file), data, len, at);
}

static int file_write(sqlite3_file *file, const void *data, int len, sqlite3_int64 at)
{
	if (!fails(SQLITE_CALL_WRITE))
		return real_of(file)->pMethods->xWrite(real_of(file), data, len, at);
	real_of(file)->pMethods->xWrite(real_of(file), data, len / 2, at);
	return fault_code;
}

static int file_truncate(sqlite3_file *file, sqlite3_int64 size)
{
	return fails(SQLITE_CALL_TRUNCATE) ? fault_code : real_of(file)->pMethods->xTruncate(real_of(file), size);
}

static int file_sync(sqlite3_file *file, int flags)
{
	return fails(SQLITE_CALL_SYNC) ? fault_code : real_of(file)->pMethods->xSync(real_of(file), flags);
}

static int file_size(sqlite3_file *file, sqlite3_int64 *size)
{
	return fails(SQLITE_CALL_LOOK) ? fault_code : real_of(file)->pMethods->xFileSize(real_of(file), size);
}

static int file_lock(sqlite3_file *file, int level)
{
	return fails(SQLITE_CALL_LOCK) ? fault_code : real_of(file)->pMethods->xLock(real_of(file), level);
}

static int file_unlock(sqlite3_file *file, int level)
{
	return real_of(file)->pMethods->xUnlock(real_of(file), level);
}

static int file_check_lock(sqlite3_file *file, int *out)
{
	return real_of(file)->pMethods->xCheckReservedLock(real_of(file), out);
}

static int file_control(sqlite3_file *file, int op, void *arg)
{
	return real_of(file)->pMethods->xFileControl(real_of(file), op, arg);
}

static int file_sector(sqlite3_file *file)
{
	return real_of(file)->pMethods->xSectorSize(real_of(file));
}

static int file_traits(sqlite3_file *file)
{
	return real_of(file)->pMethods->xDeviceCharacteristics(real_of(file));
}

static int shm_map(sqlite3_file *file, int page, int size, int extend, void volatile **out)
{
	return real_of(file)->pMethods->xShmMap(real_of(file), page, size, extend, out);
}

static int shm_lock(sqlite3_file *file, int offset, int n, int flags)
{
	return real_of(file)->pMethods->xShmLock(real_of(file), offset, n, flags);
}

static void shm_barrier(sqlite3_file *file)
{
	real_of(file)->pMethods->xShmBarrier(real_of(file));
}

static int shm_unmap(sqlite3_file *file, int remove)
{
	return real_of(file)->pMethods->xShmUnmap(real_of(file), remove);
}

static const sqlite3_io_methods methods = {.iVersion = 2,
	.xClose = file_close,
	.xRead = file_read,
	.xWrite = file_write,
	.xTruncate = file_truncate,
	.xSync = file_sync,
	.xFileSize = file_size,
	.xLock = file_lock,
	.xUnlock = file_unlock,
	.xCheckReservedLock = file_check_lock,
	.xFileControl = file_control,
	.xSectorSize = file_sector,
	.xDeviceCharacteristics = file_traits,
	.xShmMap = shm_map,
	.xShmLock = shm_lock,
	.xShmBarrier = shm_barrier,
	.xShmUnmap = shm_unmap};

/* ---- names ---- */

static int vfs_open(sqlite3_vfs *v, const char *name, sqlite3_file *file, int flags, int *out)
{
	struct head *head = (struct head *)file;
	(void)v;
	file->pMethods = NULL;
	head->real = (sqlite3_file *)(void *)((char *)file + HEAD);
	if (fails(SQLITE_CALL_OPEN))
		return fault_code;
	int code = real_vfs->xOpen(real_vfs, name, head->real, flags, out);
	if (code == SQLITE_OK) {
		file->pMethods = &methods;
		files++;
	}
	return code;
}

static int vfs_delete(sqlite3_vfs *v, const char *name, int sync)
{
	(void)v;
	return fails(SQLITE_CALL_DELETE) ? fault_code : real_vfs->xDelete(real_vfs, name, sync);
}

static int vfs_access(sqlite3_vfs *v, const char *name, int flags, int *out)
{
	(void)v;
	return fails(SQLITE_CALL_LOOK) ? fault_code : real_vfs->xAccess(real_vfs, name, flags, out);
}

/* ---- memory ---- */

static sqlite3_mem_methods memory;
static int memory_left;

static void *memory_get(int size)
{
	return memory_left > 0 && --memory_left == 0 ? NULL : memory.xMalloc(size);
}

static void *memory_resize(void *old, int size)
{
	return memory_left > 0 && --memory_left == 0 ? NULL : memory.xRealloc(old, size);
}

void sqlite_kit_arm_memory(int n)
{
	memory_left = n;
}

void sqlite_kit_install(void)
{
	sqlite3_config(SQLITE_CONFIG_GETMALLOC, &memory);
	sqlite3_mem_methods failing = memory;
	failing.xMalloc = memory_get;
	failing.xRealloc = memory_resize;
	sqlite3_config(SQLITE_CONFIG_MALLOC, &failing);
	sqlite_memory_init(); /* around it, as around the usual one; what comes next would be too late */
	real_vfs = sqlite3_vfs_find(NULL);
	vfs = *real_vfs;
	vfs.pNext = NULL;
	vfs.zName = "faults";
	vfs.szOsFile = HEAD + real_vfs->szOsFile;
	vfs.xOpen = vfs_open;
	vfs.xDelete = vfs_delete;
	vfs.xAccess = vfs_access;
	sqlite3_vfs_register(&vfs, 1);
}
