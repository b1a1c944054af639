/* MQTT 5's properties: reading and adding them one by one, with the library's types. Any thread. */
#ifndef COMMON_MQTT_PROPERTIES_H
#define COMMON_MQTT_PROPERTIES_H

#include <MQTTAsync.h>
#include <stddef.h>
#include <stdint.h>

uint32_t properties_number(MQTTProperties *props, enum MQTTPropertyCodes code, uint32_t otherwise);
/* The library copies what it is given; the whole is to be freed with MQTTProperties_free. */
void properties_add_number(MQTTProperties *props, enum MQTTPropertyCodes code, uint32_t value);
void properties_add_data(MQTTProperties *props, enum MQTTPropertyCodes code, const void *data, size_t len);
/* The payload is UTF-8 JSON. */
void properties_add_content(MQTTProperties *props);

#endif
