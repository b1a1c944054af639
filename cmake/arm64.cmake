# Toolchain: arm64 (aarch64) Linux, compiled on another Debian machine. The preset "arm64" uses it.
#
#   compiler   Debian's gcc-aarch64-linux-gnu
#   sysroot    headers and libraries as scripts/sysroot makes them: below ${XDG_CACHE_HOME:-~/.cache}/ilmare, or ILMARE_SYSROOT (variable of the environment)
#   emulator   qemu-aarch64 (package qemu-user): runs what the build itself runs, the programs that print their man pages, and the unit tests
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR aarch64)
set(CMAKE_LIBRARY_ARCHITECTURE aarch64-linux-gnu)

if(DEFINED ENV{ILMARE_SYSROOT})
	set(CMAKE_SYSROOT "$ENV{ILMARE_SYSROOT}")
elseif(DEFINED ENV{XDG_CACHE_HOME})
	set(CMAKE_SYSROOT "$ENV{XDG_CACHE_HOME}/ilmare/sysroot-arm64")
else()
	set(CMAKE_SYSROOT "$ENV{HOME}/.cache/ilmare/sysroot-arm64")
endif()
if(NOT IS_DIRECTORY "${CMAKE_SYSROOT}/usr/include")
	message(FATAL_ERROR "There is no sysroot in ${CMAKE_SYSROOT}: run \"scripts/sysroot arm64\" first")
endif()
# The links in the cache change with Debian's updates; a compiled object belongs to one.
file(REAL_PATH "${CMAKE_SYSROOT}" CMAKE_SYSROOT)

# Looked for here: what CMake finds out without a compiler stays in the cache, and it would not start again when there is one.
find_program(ILMARE_CC_AARCH64 aarch64-linux-gnu-gcc)
if(NOT ILMARE_CC_AARCH64)
	message(FATAL_ERROR "aarch64-linux-gnu-gcc is missing: install the package gcc-aarch64-linux-gnu")
endif()
set(CMAKE_C_COMPILER aarch64-linux-gnu-gcc)
set(CMAKE_STRIP aarch64-linux-gnu-strip)
find_program(QEMU_AARCH64 qemu-aarch64)
if(NOT QEMU_AARCH64)
	message(FATAL_ERROR "qemu-aarch64 is missing: install the package qemu-user")
endif()
set(CMAKE_CROSSCOMPILING_EMULATOR "${QEMU_AARCH64};-L;${CMAKE_SYSROOT}")

# Programs are this machine's, all else the sysroot's.
set(CMAKE_FIND_ROOT_PATH_MODE_PROGRAM NEVER)
set(CMAKE_FIND_ROOT_PATH_MODE_LIBRARY ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_INCLUDE ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_PACKAGE ONLY)
set(ENV{PKG_CONFIG_SYSROOT_DIR} "${CMAKE_SYSROOT}")
set(ENV{PKG_CONFIG_LIBDIR} "${CMAKE_SYSROOT}/usr/lib/aarch64-linux-gnu/pkgconfig:${CMAKE_SYSROOT}/usr/share/pkgconfig")
set(ENV{PKG_CONFIG_PATH} "")
