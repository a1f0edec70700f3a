#include "tessera/planner/device.hpp"

#include <array>
#include <vector>

#include "tessera/base/error.hpp"

namespace tessera::planner {
namespace {

const std::array kDevices = {
#define DEVICE(name, tflops, fp8, memory, bandwidth, processors, node, link, network, source) \
  Device{name, tflops, fp8, memory, bandwidth, processors, node, link, network, source},
#include "tessera/planner/devices.def"
#undef DEVICE
};

}  // namespace

std::span<const Device> known_devices() { return kDevices; }

const Device* find_device(std::string_view name) {
  const std::string_view first = name.substr(0, name.find(' '));
  for (const Device& device : kDevices)
    if (device.name == name || device.name == first) return &device;
  return nullptr;
}

const Device& known_device(std::string_view name) {
  if (const Device* found = find_device(name)) return *found;
  std::vector<std::string> names;
  for (const Device& device : kDevices) names.push_back(device.name);
  throw UserError(cat("there is no device \"", name, "\"", did_you_mean(nearest(name, names)), " Known are ",
                      join(names, ", "), "."));
}

}  // namespace tessera::planner
