/* References to variables in a container's command, args and environment, as Kubernetes defines them: `$(NAME)` becomes the variable's
 * value, `$$(NAME)` stands for the text `$(NAME)`, and a reference to a variable that is not there stays as it is. Pure.
 */
#ifndef LOCAL_EXPAND_H
#define LOCAL_EXPAND_H

#include <cjson/cJSON.h>

/* `vars`: an object of texts. To be freed. */
char *expand_text(const char *text, const cJSON *vars);

#endif
