/* SPDX-License-Identifier: BSD-2-Clause */
/* The kernels that are chosen by measurement, by several threads at once: native_choice. */
#include <stdio.h>

#include "kernels.h"
#include "threads.h"

enum { THREADS = 8 };

static const choice *found[THREADS];
static unsigned next;

static void *choose(void *unused)
{
    (void)unused;
    found[__atomic_fetch_add(&next, 1, __ATOMIC_RELAXED)] = chosen_kernels();
    return NULL;
}

int main(void)
{
    static const char *const codecs[] = {"bounded", "planes"}, *const operations[] = {"compress", "decompress",
                                                                                 "sum"};
    work_together(choose, NULL, THREADS);
    const choice *made = chosen_kernels();
    for (unsigned i = 0; i < next; i++)
        if (found[i] != made || !made->chosen[CODECS - 1][OPERATIONS - 1])
            return 1;
    for (int codec = 0; codec < CODECS; codec++) {
        const coder *c = made->automatic.coders[codec];
        const coder *up = made->chosen[codec][COMPRESS]->coders[codec];
        const coder *down = made->chosen[codec][DECOMPRESS]->coders[codec];
        if (c->compress != up->compress || c->decompress != down->decompress
            || c->decompress_add != down->decompress_add
            || c->sum != made->chosen[codec][SUM]->coders[codec]->sum)
            return 1;
        for (int operation = 0; operation < OPERATIONS; operation++)
            printf("%s %s %s\n", codecs[codec], operations[operation], made->chosen[codec][operation]->name);
    }
    return 0;
}
