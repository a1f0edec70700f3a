#include <zlib.h>
#include <zstd.h>

#include <vector>

#include "tessera/base/error.hpp"
#include "tessera/data/text/byte_stream.hpp"

namespace tessera::data {
namespace {

constexpr std::size_t kPackedBytes = 1 << 16;

[[noreturn]] void refuse_damaged(const std::string& name, const std::string& why) {
  throw UserError(cat("cannot unpack '", name, "': ", why, ". Is the file whole? Fetch or pack it anew."));
}

// What both have in common: a buffer of packed bytes.
class Unpacked : public ByteStream {
 public:
  Unpacked(std::unique_ptr<ByteStream> packed, std::string name)
      : name_(std::move(name)), packed_(std::move(packed)), buffer_(kPackedBytes) {}
  std::uint64_t taken() const override { return packed_->taken(); }

 protected:
  // More packed bytes; empty at the end.
  std::span<std::byte> more() { return std::span(buffer_).first(packed_->read(buffer_)); }

  std::string name_;

 private:
  std::unique_ptr<ByteStream> packed_;
  std::vector<std::byte> buffer_;
};

class Gunzipped : public Unpacked {
 public:
  Gunzipped(std::unique_ptr<ByteStream> packed, std::string name)
      : Unpacked(std::move(packed), std::move(name)) {
    constexpr int kGzip = 16;  // added to the window's bits: a gzip header is expected
    TESSERA_CHECK(inflateInit2(&state_, kGzip + MAX_WBITS) == Z_OK, "zlib");
  }
  ~Gunzipped() override { inflateEnd(&state_); }

  std::size_t read(std::span<std::byte> out) override {
    state_.next_out = reinterpret_cast<Bytef*>(out.data());
    state_.avail_out = static_cast<uInt>(out.size());
    while (state_.avail_out == out.size()) {
      if (state_.avail_in == 0) {
        const auto some = more();
        if (some.empty() && is_between_) break;
        if (some.empty()) refuse_damaged(name_, "it ends in the middle");
        state_.next_in = reinterpret_cast<Bytef*>(some.data());
        state_.avail_in = static_cast<uInt>(some.size());
      }
      is_between_ = false;
      const int result = inflate(&state_, Z_NO_FLUSH);
      if (result == Z_STREAM_END) {
        is_between_ = true;
        TESSERA_CHECK(inflateReset(&state_) == Z_OK, "zlib");
      } else if (result != Z_OK && result != Z_BUF_ERROR) {
        refuse_damaged(name_, state_.msg ? state_.msg : "its bytes are damaged");
      }
    }
    return out.size() - state_.avail_out;
  }

 private:
  z_stream state_{};
  bool is_between_ = true;  // parts
};

class Unzstd : public Unpacked {
 public:
  Unzstd(std::unique_ptr<ByteStream> packed, std::string name, int most_window_log)
      : Unpacked(std::move(packed), std::move(name)), state_(ZSTD_createDCtx(), ZSTD_freeDCtx) {
    TESSERA_CHECK(state_ != nullptr, "zstd");
    ZSTD_DCtx_setParameter(state_.get(), ZSTD_d_windowLogMax, most_window_log);
  }

  std::size_t read(std::span<std::byte> out) override {
    ZSTD_outBuffer to{out.data(), out.size(), 0};
    while (to.pos == 0) {
      // What is left inside the state comes out before more goes in.
      if (from_.pos == from_.size && !has_more_) {
        const auto some = more();
        if (some.empty() && is_between_) break;
        if (some.empty()) refuse_damaged(name_, "it ends in the middle");
        from_ = {some.data(), some.size(), 0};
      }
      const std::size_t result = ZSTD_decompressStream(state_.get(), &to, &from_);
      if (ZSTD_isError(result)) refuse_damaged(name_, ZSTD_getErrorName(result));
      is_between_ = result == 0;
      has_more_ = to.pos == to.size && !is_between_;
    }
    return to.pos;
  }

 private:
  std::unique_ptr<ZSTD_DCtx, std::size_t (*)(ZSTD_DCtx*)> state_;
  ZSTD_inBuffer from_{nullptr, 0, 0};
  bool is_between_ = true, has_more_ = false;
};

}  // namespace

std::unique_ptr<ByteStream> gunzipped(std::unique_ptr<ByteStream> packed, std::string name) {
  return std::make_unique<Gunzipped>(std::move(packed), std::move(name));
}

std::unique_ptr<ByteStream> unzstd(std::unique_ptr<ByteStream> packed, std::string name,
                                   int most_window_log) {
  return std::make_unique<Unzstd>(std::move(packed), std::move(name), most_window_log);
}

}  // namespace tessera::data
