#include "tessera/tokenizer/split/code_bits.hpp"

#include <algorithm>

namespace tessera::tokenizer {

CodeBits::Page& CodeBits::own_page(std::size_t part) {
  if (page_of_[part] == 0) {
    page_of_[part] = static_cast<std::uint16_t>(pages_.size());
    pages_.push_back(pages_[0]);
  }
  return pages_[page_of_[part]];
}

void CodeBits::add(char32_t first, char32_t last) {
  for (char32_t code = first; code <= last;) {
    Page& page = own_page(code / kPageCodes);
    const char32_t end = std::min(last + 1, (code / kPageCodes + 1) * kPageCodes);
    if (end - code == kPageCodes) {
      page.fill(UINT64_MAX);
      code = end;
    }
    for (; code < end; ++code) page[code % kPageCodes / 64] |= std::uint64_t{1} << (code % 64);
  }
}

void CodeBits::add(const CodeBits& other) {
  for (std::size_t part = 0; part < page_of_.size(); ++part) {
    const Page& added = other.pages_[other.page_of_[part]];
    if (added == Page{}) continue;
    Page& page = own_page(part);
    for (std::size_t i = 0; i < page.size(); ++i) page[i] |= added[i];
  }
}

bool CodeBits::operator==(const CodeBits& other) const {
  for (std::size_t part = 0; part < page_of_.size(); ++part)
    if (pages_[page_of_[part]] != other.pages_[other.page_of_[part]]) return false;
  return true;
}

}  // namespace tessera::tokenizer
