/* What is read from a Secret object beside its values, by the core and by whoever hands the values on. Pure. */
#ifndef CLOUD_CORE_SECRET_H
#define CLOUD_CORE_SECRET_H

#include <cjson/cJSON.h>

/* Where the object store is, "http(s)://host[:port]", from the annotations s3-endpoint and s3-usehttps; "" if they do not say. To be freed. */
char *secret_endpoint(const cJSON *object);
/* Its version as documents tell it; to be freed. */
char *secret_version(const cJSON *object);

#endif
