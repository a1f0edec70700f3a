// The families by their place in spec/families.def: what each says to the compiler, and of the files of
// `transformers`.
#pragma once

#include <span>

#include "tessera/checkpoint/foreign/foreign_family.hpp"
#include "tessera/plan/model/family.hpp"

namespace tessera::families {

plan::Blueprint blueprint(const spec::Run& run);

std::span<const checkpoint::ForeignFamily> foreign_families();
const checkpoint::ForeignFamily& foreign_family(spec::Family family);

}  // namespace tessera::families
