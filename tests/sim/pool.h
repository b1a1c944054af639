/* cJSON's memory in the simulator. */
#ifndef SIM_POOL_H
#define SIM_POOL_H

void pool_init(void); /* after mem_init, before the first tree */

#endif
