/* SPDX-License-Identifier: BSD-2-Clause */
/* Threads for the length of one call. */
#include "threads.h"
#include "types.h"

#include <pthread.h>

enum {
    /* Lanes for which another thread is worth its start. */
    THREAD_LANES = 1 << 18,
};

unsigned worthwhile_threads(unsigned wanted, size_t lanes)
{
    return (unsigned)smaller(smaller(wanted, MAX_THREADS), lanes / THREAD_LANES + 1);
}

void work_together(void *(*work)(void *), void *job, unsigned threads)
{
    pthread_t helpers[MAX_THREADS];
    unsigned started = 0;
    while (started + 1 < threads && pthread_create(&helpers[started], NULL, work, job) == 0)
        started++;
    work(job);
    while (started)
        pthread_join(helpers[--started], NULL);
}
