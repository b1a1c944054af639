/* See power_kit.h. Inodes are told apart by their number, and kept from being used again by a descriptor each. */
#include "tests/unit/power_kit.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <sys/stat.h>

#include "tests/unit/unit.h"

enum { INODES_MAX = 512, CUT = 77, ENDED = 78 };

typedef struct name {
	char *text;
	ino_t ino;
	mode_t mode;
} name;

/* What is on the disk of a file (bytes), a folder (names) or a link (bytes: where it leads). */
typedef struct inode {
	ino_t ino;
	mode_t mode;
	int fd;
	buf bytes;
	name *names;
	size_t n_names;
} inode;

static struct {
	bool on;
	const char *folder;
	enum power_rule rule;
	int left;    /* calls until the cut */
	int healthy; /* calls until one fails; 0: none will */
	bool failed;
	inode inodes[INODES_MAX];
	size_t n;
} disk;

static void cut(int status);

/* ---- what is on the disk ---- */

static inode *find(ino_t ino)
{
	for (size_t i = 0; i < disk.n; i++) {
		if (disk.inodes[i].ino == ino)
			return &disk.inodes[i];
	}
	return NULL;
}

static void must(bool ok, const char *what, const char *path)
{
	if (ok)
		return;
	fprintf(stderr, "power_kit: %s %s: %s\n", what, path, strerror(errno));
	_exit(1);
}

static void read_names(inode *i, const char *path)
{
	DIR *dir = opendir(path);
	struct dirent *entry;
	struct stat st;
	must(dir != NULL, "opendir", path);
	for (size_t k = 0; k < i->n_names; k++)
		free(i->names[k].text);
	i->n_names = 0;
	while ((entry = readdir(dir)) != NULL) {
		if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0)
			continue;
		i->names = mem_resize_array(i->names, i->n_names + 1, sizeof *i->names);
		must(fstatat(dirfd(dir), entry->d_name, &st, AT_SYMLINK_NOFOLLOW) == 0, "stat", entry->d_name);
		i->names[i->n_names++] = (name){.text = mem_strdup(entry->d_name), .ino = st.st_ino, .mode = st.st_mode};
	}
	closedir(dir);
}

static void read_bytes(const struct stat *st, const char *path, buf *out)
{
	char to[PATH_MAX];
	buf_clear(out);
	if (S_ISLNK(st->st_mode)) {
		ssize_t len = readlink(path, to, sizeof to);
		must(len >= 0, "readlink", path);
		buf_add(out, to, (size_t)len);
	} else {
		must(file_read(path, 64 << 20, out, NULL) == 0, "read", path);
	}
}

/* As it is now, it is on the disk. Takes fd. */
static void keep(int fd, const char *path)
{
	struct stat st = {0};
	must(fd >= 0 && fstat(fd, &st) == 0, "open", path);
	inode *i = find(st.st_ino);
	if (i == NULL) {
		must(disk.n < INODES_MAX, "too many files", path);
		i = &disk.inodes[disk.n++];
		*i = (inode){.ino = st.st_ino, .fd = fd};
	} else {
		close(fd);
	}
	i->mode = st.st_mode;
	if (S_ISDIR(st.st_mode))
		read_names(i, path);
	else
		read_bytes(&st, path, &i->bytes);
}

static void keep_all(const char *path)
{
	struct stat st = {0};
	must(lstat(path, &st) == 0, "lstat", path);
	keep(open(path, (S_ISLNK(st.st_mode) ? O_PATH : O_RDONLY) | O_NOFOLLOW | O_CLOEXEC), path);
	if (!S_ISDIR(st.st_mode))
		return;
	const inode *i = find(st.st_ino);
	for (size_t k = 0; k < i->n_names; k++) {
		char *child = mem_printf("%s/%s", path, i->names[k].text);
		keep_all(child);
		free(child);
		i = find(st.st_ino);
	}
}

/* ---- the calls ---- */

/* False: the call fails. */
static bool step(void)
{
	if (!disk.on)
		return true;
	if (--disk.left == 0)
		cut(CUT);
	if (disk.healthy == 0 || --disk.healthy > 0)
		return true;
	disk.failed = true;
	errno = EIO;
	return false;
}

void power_fail(int n)
{
	disk.healthy = n;
	disk.failed = false;
}

bool power_failed(void)
{
	disk.healthy = 0;
	return disk.failed;
}

/* Costs nothing where no power is cut: a test makes hundreds of folders. */
static int sync_fd(int fd)
{
	if (!disk.on)
		return 0;
	if (!step())
		return -1;
	char *path = mem_printf("/proc/self/fd/%d", fd);
	keep(open(path, O_RDONLY | O_CLOEXEC), path);
	free(path);
	return 0;
}

int __wrap_fsync(int fd);
int __wrap_fsync(int fd)
{
	return sync_fd(fd);
}

/* For SQLite's library, which finds these before the ones of the C library. */
int power_fdatasync(int fd) __asm__("fdatasync");
int power_fdatasync(int fd)
{
	return sync_fd(fd);
}

int __real_rename(const char *from, const char *to);
int __wrap_rename(const char *from, const char *to);
int __wrap_rename(const char *from, const char *to)
{
	return step() ? __real_rename(from, to) : -1;
}

int __real_renameat2(int a, const char *from, int b, const char *to, unsigned flags);
int __wrap_renameat2(int a, const char *from, int b, const char *to, unsigned flags);
int __wrap_renameat2(int a, const char *from, int b, const char *to, unsigned flags)
{
	return step() ? __real_renameat2(a, from, b, to, flags) : -1;
}

/* ---- the cut ---- */

static void put_file(const char *to, const void *data, size_t len, mode_t mode)
{
	int fd = open(to, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, mode & 0777);
	must(fd >= 0 && write(fd, data, len) == (ssize_t)len && close(fd) == 0, "write", to);
}

static void put_link(const char *to, const buf *where)
{
	char *text = mem_strndup(where->data, where->len);
	must(symlink(text, to) == 0, "symlink", to);
	free(text);
}

/* What was synced of this inode, and of all below it. One of which only the name was synced is empty. */
static void put_synced(ino_t ino, mode_t mode, const char *to)
{
	static const inode nothing;
	const inode *i = find(ino);
	if (i == NULL)
		i = &nothing;
	if (S_ISDIR(mode)) {
		must(mkdir(to, mode & 0777) == 0, "mkdir", to);
		for (size_t k = 0; k < i->n_names; k++) {
			char *child = mem_printf("%s/%s", to, i->names[k].text);
			put_synced(i->names[k].ino, i->names[k].mode, child);
			free(child);
		}
	} else if (S_ISLNK(mode)) {
		put_link(to, &i->bytes);
	} else {
		put_file(to, buf_text(&i->bytes), i->bytes.len, mode);
	}
}

/* A file as it is now over what was synced of it: the first half of it, or nothing. */
static void put_unsynced(const struct stat *st, const char *from, const char *to)
{
	const inode *i = find(st->st_ino);
	buf now = {0}, bytes = {0};
	read_bytes(st, from, &now);
	if (i != NULL)
		buf_add(&bytes, buf_text(&i->bytes), i->bytes.len);
	bool same = bytes.len == now.len && memcmp(buf_text(&bytes), buf_text(&now), now.len) == 0;
	if (disk.rule == POWER_TORN && !same) {
		size_t half = now.len / 2;
		buf_clear(&bytes);
		buf_add(&bytes, buf_text(&now), half);
		if (i != NULL && i->bytes.len > half)
			buf_add(&bytes, i->bytes.data + half, i->bytes.len - half);
	}
	put_file(to, buf_text(&bytes), bytes.len, st->st_mode);
	buf_fini(&now);
	buf_fini(&bytes);
}

static void put_named(const char *from, const char *to)
{
	struct stat st;
	struct dirent *entry;
	buf link = {0};
	must(lstat(from, &st) == 0, "lstat", from);
	if (S_ISLNK(st.st_mode)) {
		read_bytes(&st, from, &link);
		put_link(to, &link);
		buf_fini(&link);
		return;
	}
	if (!S_ISDIR(st.st_mode)) {
		put_unsynced(&st, from, to);
		return;
	}
	DIR *dir = opendir(from);
	must(dir != NULL && mkdir(to, st.st_mode & 0777) == 0, "mkdir", to);
	while ((entry = readdir(dir)) != NULL) {
		if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0)
			continue;
		char *a = mem_printf("%s/%s", from, entry->d_name), *b = mem_printf("%s/%s", to, entry->d_name);
		put_named(a, b);
		free(a);
		free(b);
	}
	closedir(dir);
}

static void cut(int status)
{
	struct stat st;
	char *to = mem_printf("%s.kept", disk.folder);
	disk.on = false;
	must(stat(disk.folder, &st) == 0, "stat", disk.folder);
	if (disk.rule == POWER_SYNCED)
		put_synced(st.st_ino, st.st_mode, to);
	else
		put_named(disk.folder, to);
	_exit(status);
}

bool power_cut(const char *folder, enum power_rule rule, int n, void (*f)(void *), void *arg)
{
	int status = 0;
	fflush(NULL);
	pid_t pid = fork();
	if (pid == 0) {
		disk.folder = folder;
		disk.rule = rule;
		disk.left = n;
		keep_all(folder);
		disk.on = true;
		f(arg);
		cut(ENDED);
	}
	assert_true(waitpid(pid, &status, 0) == pid && WIFEXITED(status));
	if (WEXITSTATUS(status) != CUT && WEXITSTATUS(status) != ENDED)
		fail_msg("with the power cut at %d the process ended with status %d", n, WEXITSTATUS(status));
	char *kept = mem_printf("%s.kept", folder);
	error err = {0};
	if (file_remove_tree(folder, &err) != 0)
		fail_msg("%s", err.text);
	assert_int_equal(rename(kept, folder), 0);
	free(kept);
	return WEXITSTATUS(status) == ENDED;
}
