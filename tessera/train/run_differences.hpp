// The keys in which a run differs from the one that wrote a checkpoint.
#pragma once

#include <string>
#include <vector>

#include "tessera/spec/spec.hpp"

namespace tessera::train {

// "model.heads = 8, the checkpoint has 4" of each key that changes what the model computes.
std::vector<std::string> model_differences(const spec::Run& run, const spec::Run& saved);
// The same of each key that changes which samples a step is made of; the file itself is compared apart.
std::vector<std::string> data_differences(const spec::Run& run, const spec::Run& saved);

}  // namespace tessera::train
