/* SPDX-License-Identifier: BSD-2-Clause */
/* Threads for the length of one call. */
#ifndef INCEPTIONN_NATIVE_THREADS_H
#define INCEPTIONN_NATIVE_THREADS_H

#include <stddef.h>

enum { MAX_THREADS = 64 };

/* How many of the threads are worth starting for this number of lanes. */
unsigned worthwhile_threads(unsigned wanted, size_t lanes);
/* Calls `work` in `threads` threads, this one included; in fewer if the system has no more. */
void work_together(void *(*work)(void *), void *job, unsigned threads);

#endif
