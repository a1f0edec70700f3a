#include "tessera/planner/device.hpp"

#include <algorithm>
#include <array>
#include <cctype>
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
  const auto lower = [](std::string_view text) {
    std::string out(text);
    std::ranges::transform(out, out.begin(),
                           [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
    return out;
  };
  std::vector<std::string> names, alike;
  for (const Device& device : kDevices) {
    names.push_back(device.name);
    if (!name.empty() && lower(device.name).find(lower(name)) != std::string::npos)
      alike.push_back(device.name);
  }
  if (!alike.empty())
    throw UserError(cat("there is no device \"", name, "\": name one of ", join(alike, ", "), "."));
  throw UserError(cat("there is no device \"", name, "\"", did_you_mean(nearest(name, names)), " Known are ",
                      join(names, ", "), "."));
}

}  // namespace tessera::planner
