# What CPack is told, and nothing that is built. See CMakeLists.txt beside this file.
set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGE_VERSION "${PROJECT_VERSION}")
set(CPACK_PACKAGE_CONTACT "Ilmare maintainers <maintainers@ilmare.invalid>")
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_STRIP_FILES ON)
set(CPACK_COMPONENTS_ALL edge cloud)
set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_COMPONENTS_GROUPING ONE_PER_GROUP)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_RELEASE 1)
set(CPACK_DEBIAN_PACKAGE_SECTION net)
set(CPACK_DEBIAN_PACKAGE_PRIORITY optional)
set(CPACK_DEBIAN_COMPRESSION_TYPE xz)
set(CPACK_DEBIAN_PACKAGE_CONTROL_STRICT_PERMISSION ON)
set(CPACK_INSTALL_DEFAULT_DIRECTORY_PERMISSIONS OWNER_READ OWNER_WRITE OWNER_EXECUTE GROUP_READ GROUP_EXECUTE WORLD_READ WORLD_EXECUTE)

# adduser: where systemd's sysusers is not there. tzdata: times in triggers may name a zone.
set(edge_depends "adduser, init-system-helpers (>= 1.54)")
set(cloud_depends "ilmare-edge (= ${PROJECT_VERSION}-1), init-system-helpers (>= 1.54)")
if(CMAKE_CROSSCOMPILING)
	# dpkg-shlibdeps reads the package database of this machine, not of the other; so the answer for the same libraries is written down.
	# tests/package compares it with what dpkg-shlibdeps says where it can.
	file(STRINGS "${scripts_dir}/edge/libraries" edge_libraries)
	file(STRINGS "${scripts_dir}/cloud/libraries" cloud_libraries)
	list(JOIN edge_libraries ", " edge_libraries)
	list(JOIN cloud_libraries ", " cloud_libraries)
	string(APPEND edge_depends ", ${edge_libraries}")
	string(APPEND cloud_depends ", ${cloud_libraries}")
	if(CMAKE_SYSTEM_PROCESSOR STREQUAL "aarch64")
		set(CPACK_DEBIAN_PACKAGE_ARCHITECTURE arm64)
	endif()
else()
	set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
endif()

foreach(component edge cloud)
	string(TOUPPER ${component} key)
	set(CPACK_DEBIAN_${key}_PACKAGE_NAME "ilmare-${component}")
	set(CPACK_DEBIAN_${key}_PACKAGE_DEPENDS "${${component}_depends}")
	set(CPACK_DEBIAN_${key}_PACKAGE_CONTROL_EXTRA
		"${scripts_dir}/${component}/postinst;${scripts_dir}/${component}/prerm;${scripts_dir}/${component}/postrm")
endforeach()
set(CPACK_DEBIAN_EDGE_PACKAGE_RECOMMENDS "ca-certificates, tzdata")
set(CPACK_DEBIAN_CLOUD_PACKAGE_RECOMMENDS "ca-certificates")
set(CPACK_DEBIAN_CLOUD_PACKAGE_SUGGESTS "mosquitto")
set(CPACK_COMPONENT_EDGE_DESCRIPTION
"incremental learning on devices that are often offline: edge agent
The edge agent of Ilmare runs on a device, as a service. It follows the
dataset files of the jobs of a Kubernetes cluster, decides when there are
enough new samples to train on, takes the results of workers, and puts a
model that is better in place. It speaks MQTT with the cloud agent, works on
while the link is away, and loses nothing when it is stopped or killed.
.
The program ilmare-enroll puts a device into service, with one file from the
operator of the cluster.")
set(CPACK_COMPONENT_CLOUD_DESCRIPTION
"incremental learning on devices that are often offline: cloud agent
The cloud agent of Ilmare runs training, evaluation and inference for the
jobs whose samples edge agents gather, and records each step. It does so in a
Kubernetes cluster, for which there are images and a Helm chart, or with the
programs of one machine, for which there is this package.")
include(CPack)
