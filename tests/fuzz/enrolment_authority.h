/* An authority of nobody's, for the fuzz target of enrolment: its key is no secret. */
#ifndef TESTS_FUZZ_ENROLMENT_AUTHORITY_H
#define TESTS_FUZZ_ENROLMENT_AUTHORITY_H

/* In its time, and in that of the certificate in the corpus. */
#define FUZZ_NOW INT64_C(1900000000000)

static const char fuzz_authority_cert[] = "-----BEGIN CERTIFICATE-----\n"
										  "MIIBdDCCARugAwIBAgIUZmCbkbg9WAfc2nvvpqzj6poKP8kwCgYIKoZIzj0EAwIw\n"
										  "DzENMAsGA1UEAwwEZnV6ejAgFw0yNjExMzAyMjI1MDlaGA8yMTI2MTEwNjIyMjUw\n"
										  "OVowDzENMAsGA1UEAwwEZnV6ejBZMBMGByqGSM49AgEGCCqGSM49AwEHA0IABP4L\n"
										  "SWlwM4SPC5Avu/Q+dQeJWVzIUgX+wGDx/Kv5ImMe7SLaNTc4a91JHZXwwxo+HbTW\n"
										  "p+sIjkBD57eibAtNjpqjUzBRMB0GA1UdDgQWBBQf7YJ6Y9DQNzc8fRdJ659ZdRL2\n"
										  "1TAfBgNVHSMEGDAWgBQf7YJ6Y9DQNzc8fRdJ659ZdRL21TAPBgNVHRMBAf8EBTAD\n"
										  "AQH/MAoGCCqGSM49BAMCA0cAMEQCIDeu6TeR8kuW2pIE+hfCsOO9kk2lAJrS6rVf\n"
										  "iWsNkD6CAiBkDdeHECfFwP7pi8GYa7C4ZwN/ZFVq35ulTn/iTys9tw==\n"
										  "-----END CERTIFICATE-----\n";

static const char fuzz_authority_key[] = "-----BEGIN PRIVATE KEY-----\n"
										 "MIGHAgEAMBMGByqGSM49AgEGCCqGSM49AwEHBG0wawIBAQQguE0THfp8noF9kjzT\n"
										 "hoZvY2HBykG/k8D0QiDy7iKzxoGhRANCAAT+C0lpcDOEjwuQL7v0PnUHiVlcyFIF\n"
										 "/sBg8fyr+SJjHu0i2jU3OGvdSR2V8MMaPh201qfrCI5AQ+e3omwLTY6a\n"
										 "-----END PRIVATE KEY-----\n";

#endif
