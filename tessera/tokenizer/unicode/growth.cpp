#include "tessera/tokenizer/unicode/growth.hpp"

#include "tessera/base/error.hpp"

namespace tessera::tokenizer {

void GrowthLimit::refuse() const {
  throw UserError(cat("the rules of the tokenizer make more than ", most_, " bytes of a text of ",
                      (most_ - kSlack) / kTimes, " bytes; at most ", kTimes, " times its length and ", kSlack,
                      " bytes are allowed. Look for rules of its file that insert long texts."));
}

}  // namespace tessera::tokenizer
