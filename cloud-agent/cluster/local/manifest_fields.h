/* The fields of each kind of manifest, as tables (compare Sedna's custom resources). */
#ifndef LOCAL_MANIFEST_FIELDS_H
#define LOCAL_MANIFEST_FIELDS_H

#include "cloud-agent/cluster/local/fields.h"

extern const field manifest_metadata_fields[];
extern const field manifest_dataset_fields[];
extern const field manifest_model_fields[];
extern const field manifest_job_fields[];

#endif
