# The libraries of the system, each as one imported target:
#   PkgConfig::CJSON  PkgConfig::UV  PkgConfig::MICROHTTPD  PkgConfig::YAML  PkgConfig::SQLITE  PkgConfig::CURL  PkgConfig::ARCHIVE  PkgConfig::CRYPTO  PkgConfig::SSL  PkgConfig::CMOCKA
#   Paho::Async       Eclipse Paho MQTT C, asynchronous API, built with TLS
#   Threads::Threads
include_guard(GLOBAL)
find_package(PkgConfig REQUIRED)
set(THREADS_PREFER_PTHREAD_FLAG ON)
find_package(Threads REQUIRED)

pkg_check_modules(CJSON REQUIRED IMPORTED_TARGET libcjson>=1.7.15)
pkg_check_modules(UV REQUIRED IMPORTED_TARGET libuv>=1.40)
pkg_check_modules(MICROHTTPD REQUIRED IMPORTED_TARGET libmicrohttpd>=0.9.71)
pkg_check_modules(YAML REQUIRED IMPORTED_TARGET yaml-0.1)
pkg_check_modules(SQLITE REQUIRED IMPORTED_TARGET sqlite3>=3.38)
pkg_check_modules(CURL REQUIRED IMPORTED_TARGET libcurl>=7.88)
pkg_check_modules(ARCHIVE REQUIRED IMPORTED_TARGET libarchive>=3.6)
pkg_check_modules(CRYPTO REQUIRED IMPORTED_TARGET libcrypto>=3.0)
pkg_check_modules(SSL REQUIRED IMPORTED_TARGET libssl>=3.0)
if(BUILD_TESTING)
	pkg_check_modules(CMOCKA REQUIRED IMPORTED_TARGET cmocka>=1.1.5)
endif()

# Debian's package has no pkg-config file, and its CMake files name a build that it does not ship.
find_path(PAHO_INCLUDE_DIR MQTTAsync.h REQUIRED)
find_library(PAHO_ASYNC_LIBRARY paho-mqtt3as REQUIRED)
if(NOT TARGET Paho::Async)
	add_library(Paho::Async UNKNOWN IMPORTED)
	set_target_properties(Paho::Async PROPERTIES
		IMPORTED_LOCATION "${PAHO_ASYNC_LIBRARY}"
		INTERFACE_INCLUDE_DIRECTORIES "${PAHO_INCLUDE_DIR}")
endif()
