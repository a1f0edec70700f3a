// Whether bytes may stand for tokens. A model that was trained with a tokenizer takes a byte for another
// token's id, and learns nonsense without a word.
#pragma once

#include <string>

#include "tessera/spec/spec.hpp"

namespace tessera::train {

// Throw UserError when the weights, or the checkpoint, that a run begins with have a tokenizer and
// data.bytes_as_tokens does not allow to do without.
void expect_no_tokenizer(const spec::Data& data, const spec::Model& model);
void expect_no_tokenizer(const spec::Data& data, const std::string& checkpoint);

}  // namespace tessera::train
