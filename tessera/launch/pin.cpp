#include "tessera/launch/pin.hpp"

#include <hwloc.h>

#include <memory>
#include <vector>

#include "tessera/base/error.hpp"

namespace tessera::launch {
namespace {

struct FreeSet {
  void operator()(hwloc_bitmap_t set) const { hwloc_bitmap_free(set); }
};
using CoreSet = std::unique_ptr<hwloc_bitmap_s, FreeSet>;

class Topology {
 public:
  Topology() {
    TESSERA_CHECK(hwloc_topology_init(&raw_) == 0 && hwloc_topology_load(raw_) == 0,
                  "hwloc cannot read the machine");
    const CoreSet usable(hwloc_bitmap_alloc());
    if (hwloc_get_cpubind(raw_, usable.get(), HWLOC_CPUBIND_PROCESS) == 0)
      hwloc_topology_restrict(raw_, usable.get(), 0);
  }
  ~Topology() { hwloc_topology_destroy(raw_); }
  Topology(const Topology&) = delete;
  Topology& operator=(const Topology&) = delete;

  CoreSet share(int rank, int size) const {
    // Down to cores, not to the hardware threads of one, which would slow each other.
    const int depth = hwloc_get_type_or_below_depth(raw_, HWLOC_OBJ_CORE);
    const int num_cores = static_cast<int>(hwloc_get_nbobjs_by_depth(raw_, depth));
    if (size > num_cores)
      return CoreSet(hwloc_bitmap_dup(
          hwloc_get_obj_by_depth(raw_, depth, static_cast<unsigned>(rank % num_cores))->cpuset));
    std::vector<hwloc_bitmap_t> shares(static_cast<std::size_t>(size));
    hwloc_obj_t root = hwloc_get_root_obj(raw_);
    TESSERA_CHECK(hwloc_distrib(raw_, &root, 1, shares.data(), static_cast<unsigned>(size), depth, 0) == 0);
    std::vector<CoreSet> owned;
    for (const auto share : shares) owned.emplace_back(share);
    return std::move(owned[static_cast<std::size_t>(rank)]);
  }

  bool bind(const CoreSet& cores) const {
    return hwloc_set_cpubind(raw_, cores.get(), HWLOC_CPUBIND_PROCESS) == 0;
  }

 private:
  hwloc_topology_t raw_;
};

}  // namespace

std::string pin_threads(int local_rank, int local_size) {
  TESSERA_CHECK(local_rank >= 0 && local_rank < local_size, local_rank, " of ", local_size);
  const Topology topology;
  const CoreSet cores = topology.share(local_rank, local_size);
  if (!topology.bind(cores)) return "";
  char* text = nullptr;
  TESSERA_CHECK(hwloc_bitmap_list_asprintf(&text, cores.get()) >= 0);
  const std::string out(text);
  free(text);
  return out;
}

}  // namespace tessera::launch
