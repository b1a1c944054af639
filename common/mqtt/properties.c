/* MQTT 5's properties, as the library has them: see properties.h. */
#include "common/mqtt/properties.h"

#include <string.h>

#include "common/mqtt/message.h"

uint32_t properties_number(MQTTProperties *props, enum MQTTPropertyCodes code, uint32_t otherwise)
{
	return MQTTProperties_hasProperty(props, code) ? (uint32_t)MQTTProperties_getNumericValue(props, code) : otherwise;
}

void properties_add_number(MQTTProperties *props, enum MQTTPropertyCodes code, uint32_t value)
{
	MQTTProperty p = {.identifier = code};

	switch (MQTTProperty_getType(code)) {
	case MQTTPROPERTY_TYPE_BYTE:
		p.value.byte = (unsigned char)value;
		break;
	case MQTTPROPERTY_TYPE_TWO_BYTE_INTEGER:
		p.value.integer2 = (unsigned short)value;
		break;
	default:
		p.value.integer4 = value;
		break;
	}
	MQTTProperties_add(props, &p);
}

void properties_add_data(MQTTProperties *props, enum MQTTPropertyCodes code, const void *data, size_t len)
{
	MQTTProperty p = {.identifier = code};

	p.value.data.data = (char *)data;
	p.value.data.len = (int)len;
	MQTTProperties_add(props, &p);
}

void properties_add_content(MQTTProperties *props)
{
	properties_add_number(props, MQTTPROPERTY_CODE_PAYLOAD_FORMAT_INDICATOR, 1);
	properties_add_data(props, MQTTPROPERTY_CODE_CONTENT_TYPE, MESSAGE_CONTENT_TYPE, strlen(MESSAGE_CONTENT_TYPE));
}
