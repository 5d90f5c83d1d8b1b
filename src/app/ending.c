/* SPDX-License-Identifier: MIT */
#include "app/ending.h"

#include <signal.h>

static void on_signal(void *arg, int number)
{
    struct hx_ending *ending = arg;
    (void)number;
    if (ending->was_asked)
        hx_gateway_stop(*ending->gateway);
    else
        hx_gateway_drain(*ending->gateway);
    ending->was_asked = true;
}

void hx_ending_init(struct hx_ending *ending, struct hx_loop *loop,
                    struct hx_gateway *const *gateway)
{
    static const int numbers[] = {SIGTERM, SIGINT, SIGHUP};
    *ending = (struct hx_ending){.gateway = gateway};
    for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++)
        ending->watches[i] = hx_loop_signal_new(loop, numbers[i], on_signal, ending);
}

void hx_ending_fini(struct hx_ending *ending)
{
    for (size_t i = 0; i < sizeof(ending->watches) / sizeof(ending->watches[0]); i++)
        ending->watches[i] = hx_loop_signal_free(ending->watches[i]);
}
