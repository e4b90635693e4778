# What `cmake --install` lays down:
#   bin/opforge                      the shell
#   lib/libopforge.so                the runtime, C API          include/opforge/
#   lib/libopforge-forge.a           everything, for programs of the same version: include/opforge-forge/<layer>/
#   lib/cmake/opforge/               find_package(opforge): opforge::opforge, opforge::forge, opforge::plugin, opforge_add_plugin()
#   share/opforge/{ops,backends,src} sources that kernels are compiled from
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)
set(package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/opforge)

# All layers, backends and operators in one archive: they depend on each other both ways, which one archive does not show.
get_property(launchers GLOBAL PROPERTY OPFORGE_LAUNCHERS)
get_property(toolchains GLOBAL PROPERTY OPFORGE_TOOLCHAINS)
get_property(operators GLOBAL PROPERTY OPFORGE_OPERATORS)
list(TRANSFORM operators REPLACE "\\." "_")
set(parts ${OPFORGE_RUNTIME_LAYERS} ${OPFORGE_FORGE_LAYERS} launcher_table forge_table)
foreach(name ${launchers})
  list(APPEND parts launcher_${name})
endforeach()
foreach(name ${toolchains})
  list(APPEND parts toolchain_${name})
endforeach()
foreach(name ${operators})
  list(APPEND parts op_${name})
endforeach()
set(objects "")
foreach(part ${parts})
  get_target_property(kind opforge_${part} TYPE)
  if(kind STREQUAL STATIC_LIBRARY)
    list(APPEND objects $<TARGET_OBJECTS:opforge_${part}>)
  endif()
endforeach()
add_library(opforge_forge_archive STATIC ${objects})
set_target_properties(opforge_forge_archive PROPERTIES OUTPUT_NAME opforge-forge EXPORT_NAME forge LINKER_LANGUAGE CXX)
target_compile_features(opforge_forge_archive INTERFACE cxx_std_20)
target_include_directories(opforge_forge_archive INTERFACE $<INSTALL_INTERFACE:include/opforge-forge>)
target_compile_definitions(opforge_forge_archive INTERFACE
  $<INSTALL_INTERFACE:OPFORGE_SHARE_DIR="$<INSTALL_PREFIX>/${CMAKE_INSTALL_DATADIR}/opforge">)
target_link_libraries(opforge_forge_archive INTERFACE fmt::fmt tl::expected TBB::tbb Threads::Threads
                      sodium zstd sqlite3 flatbuffers ${CMAKE_DL_LIBS})

# What a plug-in's shared object is built with: headers and nothing to link.
add_library(opforge_plugin_headers INTERFACE)
set_target_properties(opforge_plugin_headers PROPERTIES EXPORT_NAME plugin)
target_compile_features(opforge_plugin_headers INTERFACE cxx_std_20)
target_include_directories(opforge_plugin_headers INTERFACE $<INSTALL_INTERFACE:include/opforge-forge>)
target_link_libraries(opforge_plugin_headers INTERFACE tl::expected)

install(TARGETS opforge_forge_archive opforge_plugin_headers EXPORT opforgeForgeTargets
        ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(EXPORT opforgeForgeTargets NAMESPACE opforge:: DESTINATION ${package_dir})
if(TARGET opforge)
  set_target_properties(opforge PROPERTIES INSTALL_RPATH "$ORIGIN")
  install(TARGETS opforge EXPORT opforgeTargets LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
  install(EXPORT opforgeTargets NAMESPACE opforge:: DESTINATION ${package_dir})
  install(DIRECTORY ${PROJECT_SOURCE_DIR}/include/opforge DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
endif()
if(TARGET opforge_cli)
  set_target_properties(opforge_cli PROPERTIES INSTALL_RPATH "$ORIGIN/../${CMAKE_INSTALL_LIBDIR}")
  install(TARGETS opforge_cli RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
endif()

foreach(layer ${OPFORGE_RUNTIME_LAYERS} ${OPFORGE_FORGE_LAYERS})
  install(DIRECTORY ${PROJECT_SOURCE_DIR}/src/${layer} DESTINATION include/opforge-forge FILES_MATCHING PATTERN "*.hpp"
          PATTERN "tables" EXCLUDE PATTERN "schema" EXCLUDE)
endforeach()
install(FILES ${PROJECT_BINARY_DIR}/generated/base/version.hpp DESTINATION include/opforge-forge/base)

# Sources that kernels are compiled from, for a tree whose program is <destination>/../../bin/opforge.
function(opforge_install_sources destination)
  install(DIRECTORY ${PROJECT_SOURCE_DIR}/ops DESTINATION ${destination} ${ARGN} PATTERN "*_test.cc" EXCLUDE PATTERN "op.cmake" EXCLUDE)
  file(GLOB backend_includes CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/backends/*/include)
  foreach(folder ${backend_includes})
    cmake_path(GET folder PARENT_PATH backend)
    cmake_path(GET backend FILENAME backend)
    install(DIRECTORY ${folder} DESTINATION ${destination}/backends/${backend} ${ARGN})
  endforeach()
  # What DSL toolchains run and install.
  file(GLOB dsl_files CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/backends/*/worker.py ${PROJECT_SOURCE_DIR}/backends/*/requirements*.txt)
  foreach(file ${dsl_files})
    cmake_path(GET file PARENT_PATH folder)
    cmake_path(GET folder FILENAME backend)
    install(FILES ${file} DESTINATION ${destination}/backends/${backend} ${ARGN})
  endforeach()
  install(FILES ${PROJECT_SOURCE_DIR}/src/toolchain/opforge_worker.py DESTINATION ${destination}/src/toolchain ${ARGN})
  # The wrapper round a reference is compiled with these.
  install(FILES ${PROJECT_SOURCE_DIR}/src/operator/reference.hpp ${PROJECT_SOURCE_DIR}/src/operator/value.hpp
          DESTINATION ${destination}/src/operator ${ARGN})
endfunction()
opforge_install_sources(${CMAKE_INSTALL_DATADIR}/opforge)

configure_package_config_file(${PROJECT_SOURCE_DIR}/cmake/opforgeConfig.cmake.in ${PROJECT_BINARY_DIR}/opforgeConfig.cmake
  INSTALL_DESTINATION ${package_dir} PATH_VARS CMAKE_INSTALL_DATADIR)
write_basic_package_version_file(${PROJECT_BINARY_DIR}/opforgeConfigVersion.cmake COMPATIBILITY ExactVersion)
install(FILES ${PROJECT_BINARY_DIR}/opforgeConfig.cmake ${PROJECT_BINARY_DIR}/opforgeConfigVersion.cmake
              ${PROJECT_SOURCE_DIR}/cmake/opforge_plugin.cmake DESTINATION ${package_dir})
install(FILES ${PROJECT_SOURCE_DIR}/LICENSE DESTINATION ${CMAKE_INSTALL_DATADIR}/doc/opforge)

# A portable tree brings the shared libraries that have no static form.
if(OPFORGE_PORTABLE)
  install(CODE "set(tbb \"$<TARGET_FILE:TBB::tbb>\")")
  install(CODE [[
    file(REAL_PATH "${tbb}" real)
    get_filename_component(real_name "${real}" NAME)
    string(REGEX REPLACE "(\\.so\\.[0-9]+).*" "\\1" name "${real_name}")
    file(INSTALL "${real}" DESTINATION "${CMAKE_INSTALL_PREFIX}/lib" RENAME "${name}")
  ]])
endif()

# What a wheel carries (the component that pip's build installs).
if(OPFORGE_WITH_PYTHON)
  opforge_install_python()
endif()
