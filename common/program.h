/* Programs of this project that run others of it. Any thread. */
#ifndef COMMON_PROGRAM_H
#define COMMON_PROGRAM_H

/* The program of that name: its path, if it is in the folder of the running one; else the name, to be looked for in PATH. To be freed. */
char *program_beside(const char *name);

#endif
