#include "tessera/checkpoint/format/safetensors_header.hpp"

#include <nlohmann/json.hpp>
#include <utility>

#include "tessera/base/json_depth.hpp"

namespace tessera::checkpoint {

namespace {

using Json = nlohmann::json;

constexpr int kHeaderDepth = 3;  // header, tensor, shape

// Of one tensor, as it is met.
struct Entry {
  std::optional<std::string> dtype;
  std::optional<std::vector<std::uint64_t>> shape, offsets;
};

// Hears the header value by value. A tree of it would take ten times its bytes, and the parser that builds
// one while it looks for repeated keys takes quadratic time.
class HeaderEvents final : public nlohmann::json_sax<Json>, public Expectations {
 public:
  explicit HeaderEvents(const std::string& path) : Expectations{path} {}

  SafetensorsLayout take() { return std::move(out_); }

  bool null() override { return other("null"); }
  bool boolean(bool value) override { return other(value ? "true" : "false"); }
  bool number_integer(number_integer_t value) override { return other(cat(value)); }
  bool number_float(number_float_t, const string_t& text) override { return other(text); }
  bool binary(binary_t&) override { return false; }
  bool parse_error(std::size_t, const std::string&, const nlohmann::detail::exception&) override {
    return false;
  }

  bool number_unsigned(number_unsigned_t value) override {
    if (!list_) return other(cat(value));
    list_->push_back(value);
    return true;
  }

  bool string(string_t& value) override {
    if (depth_ != 2 || list_) return other(Json(value).dump());
    if (is_metadata()) {
      expect(out_.metadata.emplace(key_, std::move(value)).second, "header names '", key_, "' twice");
      return true;
    }
    if (key_ != "dtype") return other(Json(value).dump());
    expect(!entry_.dtype, "header names 'dtype' twice");
    entry_.dtype = std::move(value);
    return true;
  }

  bool start_object(std::size_t) override {
    if (depth_ >= 2) return other("an object");
    ++depth_;
    entry_ = {};
    return true;
  }

  bool key(string_t& value) override {
    if (depth_ == 1) {
      name_ = std::move(value);
      expect(!is_metadata() || !has_metadata_, "header names '", kMetadata, "' twice");
      has_metadata_ = has_metadata_ || is_metadata();
      expect(!out_.tensors.contains(name_), "header names '", name_, "' twice");
      return true;
    }
    key_ = std::move(value);
    expect(is_metadata() || key_ == "dtype" || key_ == "shape" || key_ == "data_offsets", "tensor '", name_,
           "' has an unknown key '", key_, "'");
    return true;
  }

  bool end_object() override {
    if (--depth_ == 1 && !is_metadata()) out_.tensors.emplace(name_, tensor());
    return true;
  }

  bool start_array(std::size_t) override {
    if (depth_ != 2 || list_ || is_metadata() || key_ == "dtype") return other("a list");
    auto& list = key_ == "shape" ? entry_.shape : entry_.offsets;
    expect(!list, "header names '", key_, "' twice");
    list_ = &list.emplace();
    return true;
  }

  bool end_array() override {
    list_ = nullptr;
    return true;
  }

 private:
  bool is_metadata() const { return name_ == kMetadata; }

  // Every value that its place does not take.
  bool other(const std::string& value) const {
    if (depth_ == 0) return false;
    expect(depth_ > 1 || !is_metadata(), kMetadata, " is not an object");
    expect(depth_ > 1, "entry '", name_, "' is not an object");
    expect(!is_metadata(), kMetadata, " '", key_, "' is not a string");
    expect(!list_, "tensor '", name_, "': '", key_, "' holds ", value, ", not a whole number");
    expect(key_ != "dtype", "tensor '", name_, "' has no dtype");
    expect(false, "tensor '", name_, "' has no list '", key_, "'");
    return false;
  }

  TensorPlace tensor() {
    expect(entry_.dtype.has_value(), "tensor '", name_, "' has no dtype");
    const auto element = element_bytes(*entry_.dtype);
    expect(element.has_value(), "tensor '", name_, "' has unknown dtype '", *entry_.dtype, "'");
    TensorPlace out{.dtype = std::move(*entry_.dtype), .shape = {}};
    expect(entry_.shape.has_value(), "tensor '", name_, "' has no list 'shape'");
    std::uint64_t size = *element;
    for (const std::uint64_t extent : *entry_.shape) {
      expect(std::in_range<std::int64_t>(extent) && !__builtin_mul_overflow(size, extent, &size), "tensor '",
             name_, "' has a shape of more than 2^64 bytes");
      out.shape.push_back(static_cast<std::int64_t>(extent));
    }
    expect(entry_.offsets.has_value(), "tensor '", name_, "' has no list 'data_offsets'");
    const auto& offsets = *entry_.offsets;
    expect(offsets.size() == 2 && offsets[0] <= offsets[1], "tensor '", name_,
           "': data_offsets must be [begin, end] with begin <= end");
    expect(offsets[1] - offsets[0] == size, "tensor '", name_, "' takes ", offsets[1] - offsets[0],
           " bytes, but its dtype and shape need ", size);
    out.begin = offsets[0];
    out.bytes = size;
    return out;
  }

  SafetensorsLayout out_;
  int depth_ = 0;  // of objects
  std::string name_, key_;
  bool has_metadata_ = false;
  Entry entry_;
  std::vector<std::uint64_t>* list_ = nullptr;  // the one that is being read
};

}  // namespace

SafetensorsLayout parse_safetensors_header(const std::string& path, std::string_view text) {
  HeaderEvents events(path);
  events.expect(text.starts_with('{'), "header does not begin with '{'");
  events.expect(json_depth(text) <= kHeaderDepth, "header is nested deeper than the format allows");
  events.expect(Json::sax_parse(text, &events), "header is not a JSON object");
  return events.take();
}

}  // namespace tessera::checkpoint
