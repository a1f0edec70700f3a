// The c10d store that NCCL's groups use, over a KeyStore.
#pragma once

#include <c10/util/intrusive_ptr.h>

#include <chrono>
#include <string>

#include "tessera/base/process/key_store.hpp"

namespace c10d {
class Store;
}

namespace tessera::collective {

// One member of a group leaves the group's id in the store, and the others wait for it. All keys begin with
// `prefix`, and all waits have one time limit. `check` and `getNumKeys` know only the keys that this process
// has seen: c10d's monitor, which calls them, looks for orders of other ranks, which the launcher carries.
c10::intrusive_ptr<c10d::Store> group_store(KeyStore& keys, std::string prefix,
                                            std::chrono::milliseconds timeout);

}  // namespace tessera::collective
