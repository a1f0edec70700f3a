// The devices that are known by name, with what their data sheets say.
#pragma once

#include <span>
#include <string>
#include <string_view>

namespace tessera::planner {

struct Device {
  std::string name;
  double tflops = 0;        // dense peak of 16-bit products, or of the precision that a CPU computes in
  double tflops_fp8 = 0;    // 0: none
  double memory_gb = 0;     // 10^9 bytes
  double memory_gbps = 0;   // GB/s
  int multiprocessors = 1;  // that the tiles of a product are dealt to
  double node_devices = 8;
  double link_gbps = 0;     // GB/s of one device to the others of its node, one way
  double network_gbps = 0;  // GB/s of one device to other nodes, one way
  std::string source;
  double issue_seconds = 0.35e-3;  // to issue the kernels of a block's forward
  double fixed_seconds = 0.02;     // of a step, that depend on nothing
  bool operator==(const Device&) const = default;
};

// All of devices.def.
std::span<const Device> known_devices();

// By name, or by the first word of what a table of runs says ("A100 (8-GPU node)"); none: nullptr.
const Device* find_device(std::string_view name);
// Throws UserError with the nearest name if there is none.
const Device& known_device(std::string_view name);

}  // namespace tessera::planner
