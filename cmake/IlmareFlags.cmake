# Compiler and linker flags for everything below the top folder: language, warnings, hardening, sanitizers.
include_guard(GLOBAL)
include(CheckPIESupported)
include(CheckCCompilerFlag)

set(CMAKE_C_STANDARD 17)
set(CMAKE_C_STANDARD_REQUIRED ON)
set(CMAKE_C_EXTENSIONS OFF)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
# POSIX 2008 and a few Linux calls (renameat2, O_TMPFILE, accept4); the language itself stays ISO C.
add_compile_definitions(_GNU_SOURCE)

find_program(CCACHE_PROGRAM ccache)
if(CCACHE_PROGRAM AND NOT CMAKE_C_COMPILER_LAUNCHER)
	set(CMAKE_C_COMPILER_LAUNCHER "${CCACHE_PROGRAM}")
endif()

# No NDEBUG: a broken invariant ends the process in a release too; a restart is always safe, going on is not.
set(CMAKE_C_FLAGS_DEBUG "-O0 -g")
set(CMAKE_C_FLAGS_RELEASE "-O2 -g")

add_compile_options(
	-Wall -Wextra -Wconversion -Wshadow -Wstrict-prototypes -Wmissing-prototypes -Wold-style-definition -Wvla -Wwrite-strings
	-Wpointer-arith -Wundef -Wformat -Wformat-security -Wimplicit-fallthrough)
if(ILMARE_WERROR)
	add_compile_options(-Werror)
endif()
add_compile_options(-fno-common -ffunction-sections -fdata-sections)
add_link_options(-Wl,--gc-sections -Wl,--as-needed)

check_pie_supported(LANGUAGES C)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
if(CMAKE_BUILD_TYPE STREQUAL "Release" AND NOT ILMARE_SANITIZE AND NOT ILMARE_FUZZ)
	# Some distributions' compilers define a level of their own already.
	add_compile_options(-U_FORTIFY_SOURCE -D_FORTIFY_SOURCE=2)
	# Control flow is protected by -fcf-protection on x86 and by -mbranch-protection on arm64.
	foreach(flag -fstack-protector-strong -fstack-clash-protection -fcf-protection -mbranch-protection=standard)
		string(MAKE_C_IDENTIFIER "HAVE${flag}" have)
		check_c_compiler_flag(${flag} ${have})
		if(${have})
			add_compile_options(${flag})
		endif()
	endforeach()
	add_link_options(-Wl,-z,relro -Wl,-z,now -Wl,-z,noexecstack)
	# A release is the same in whatever folder it is built; file names in messages are those of the repository.
	add_compile_options("-ffile-prefix-map=${PROJECT_SOURCE_DIR}/=" "-ffile-prefix-map=${PROJECT_BINARY_DIR}/=build/")
endif()

if(ILMARE_FUZZ)
	if(NOT CMAKE_C_COMPILER_ID MATCHES "Clang")
		message(FATAL_ERROR "ILMARE_FUZZ needs clang: configure with -DCMAKE_C_COMPILER=clang or the preset 'fuzz'")
	endif()
	add_compile_options(-fsanitize=fuzzer-no-link,address,undefined -fno-sanitize-recover=all -fno-omit-frame-pointer)
	add_link_options(-fsanitize=address,undefined)
elseif(ILMARE_SANITIZE)
	add_compile_options(-fsanitize=${ILMARE_SANITIZE} -fno-sanitize-recover=all -fno-omit-frame-pointer)
	add_link_options(-fsanitize=${ILMARE_SANITIZE})
endif()
if(ILMARE_COVERAGE)
	add_compile_options(--coverage)
	add_link_options(--coverage)
endif()
