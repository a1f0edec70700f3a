#include "tessera/shard/offload_store.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>

#include "tessera/base/error.hpp"
#include "tessera/tensor/account.hpp"
#include "tessera/tensor/device.hpp"

namespace tessera::shard {

using tensor::Tensor;

// Room for bytes outside.
class OffloadStore::Place {
 public:
  virtual ~Place() = default;
  virtual std::size_t capacity() const = 0;
  virtual void write(const Tensor& t) = 0;  // dense
  virtual void read(Tensor& t) = 0;         // dense
};

// Pages of their own, from the system: what a rank's allocator counts is what it holds.
class OffloadStore::Memory final : public OffloadStore::Place {
 public:
  // The system maps no less than a byte; a rank's experts may have had no rows.
  explicit Memory(std::size_t bytes) : bytes_(std::max<std::size_t>(bytes, 1)) {
    pages_ = ::mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (pages_ == MAP_FAILED)
      throw UserError(cat("no host memory for ", bytes_, " bytes of offloaded tensors: ",
                          std::strerror(errno), ". Name a folder for files by layout.offload_folder."));
    account_.add(Category::host, static_cast<std::int64_t>(bytes_));
  }
  ~Memory() override {
    ::munmap(pages_, bytes_);
    account_.add(Category::host, -static_cast<std::int64_t>(bytes_));
  }
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;
  std::size_t capacity() const override { return bytes_; }
  void write(const Tensor& t) override { view(t).copy_(t); }
  void read(Tensor& t) override { t.copy_(view(t)); }

 private:
  Tensor view(const Tensor& t) { return tensor::view_of(pages_, t.sizes(), t.scalar_type()); }

  std::size_t bytes_;
  void* pages_;
  tensor::Account account_ = tensor::Account::current();
};

// What an accelerator reaches by itself: neither a put nor a get makes the host wait. A get comes after the
// put on the device, for the program orders the ops.
class OffloadStore::Pinned final : public OffloadStore::Place {
 public:
  explicit Pinned(std::size_t bytes) : bytes_(tensor::pinned({static_cast<std::int64_t>(bytes)}, at::kByte)) {
    bytes_.zero_();
    account_.add(Category::host, bytes_.numel());
  }
  ~Pinned() override { account_.add(Category::host, -bytes_.numel()); }
  Pinned(const Pinned&) = delete;
  Pinned& operator=(const Pinned&) = delete;
  std::size_t capacity() const override { return bytes_.nbytes(); }
  void write(const Tensor& t) override { view(t).copy_(t, /*non_blocking=*/true); }
  void read(Tensor& t) override { t.copy_(view(t), /*non_blocking=*/true); }

 private:
  Tensor view(const Tensor& t) const {
    return bytes_.narrow(0, 0, static_cast<std::int64_t>(t.nbytes())).view(t.scalar_type()).view(t.sizes());
  }

  Tensor bytes_;
  tensor::Account account_ = tensor::Account::current();
};

namespace {
constexpr std::size_t kPage = 4096;
constexpr std::size_t kChunk = tensor::PinnedRing::kChunk;
static_assert(kChunk % kPage == 0);
}  // namespace

// A file without a name. Its bytes go past the page cache, in chunks through an aligned buffer: what was put
// out of memory would otherwise stay there as pages of the file (docs/memory.md has the speeds).
class OffloadStore::File final : public OffloadStore::Place {
 public:
  // `buffer` is aligned and has room for a chunk.
  File(const std::string& folder, std::size_t bytes, char* buffer, tensor::PinnedRing& ring)
      : folder_(folder), bytes_(bytes), buffer_(buffer), ring_(ring) {
    std::string path = cat(folder, "/tessera-offload-XXXXXX");
    file_ = ::mkostemp(path.data(), O_CLOEXEC);
    if (file_ < 0) fail("make a file", errno);
    ::unlink(path.c_str());
    // A file system in memory may refuse: then there is no cache to pass.
    ::fcntl(file_, F_SETFL, O_DIRECT);
    // All of it now: a disk that is too full is told before the first step.
    const int error = bytes == 0 ? 0 : ::posix_fallocate(file_, 0, static_cast<off_t>(padded(bytes)));
    if (error == 0) return;
    ::close(file_);
    fail("reserve room", error);
  }
  ~File() override { ::close(file_); }
  File(const File&) = delete;
  File& operator=(const File&) = delete;
  std::size_t capacity() const override { return bytes_; }

  void write(const Tensor& t) override {
    ring_.read(t, [this](std::span<const std::byte> bytes, std::size_t offset) { put(bytes, offset); });
  }
  void read(Tensor& t) override {
    ring_.write(t, [this](std::span<std::byte> bytes, std::size_t offset) { get(bytes, offset); });
  }

 private:
  void put(std::span<const std::byte> bytes, std::size_t offset) {
    for (std::size_t at = 0; at < bytes.size(); at += kChunk) {
      const std::size_t size = std::min(kChunk, bytes.size() - at);
      std::memcpy(buffer_, bytes.data() + at, size);
      move(
          offset + at, padded(size),
          [this](char* from, std::size_t count, off_t place) { return ::pwrite(file_, from, count, place); },
          "write");
    }
  }
  void get(std::span<std::byte> bytes, std::size_t offset) {
    for (std::size_t at = 0; at < bytes.size(); at += kChunk) {
      const std::size_t size = std::min(kChunk, bytes.size() - at);
      move(
          offset + at, padded(size),
          [this](char* into, std::size_t count, off_t place) { return ::pread(file_, into, count, place); },
          "read");
      std::memcpy(bytes.data() + at, buffer_, size);
    }
  }

  static std::size_t padded(std::size_t bytes) { return (bytes + kPage - 1) / kPage * kPage; }

  // Between the buffer and the file's bytes from `at` on.
  template <typename Call>
  void move(std::size_t at, std::size_t size, Call call, const char* what) {
    for (std::size_t done = 0; done < size;) {
      const ssize_t n = call(buffer_ + done, size - done, static_cast<off_t>(at + done));
      if (n < 0 && errno == EINTR) continue;
      if (n <= 0) fail(what, n < 0 ? errno : EIO);
      done += static_cast<std::size_t>(n);
    }
  }

  [[noreturn]] void fail(const char* what, int error) const {
    throw UserError(cat(
        "cannot ", what, " in the folder '", folder_, "' for ", bytes_ == 0 ? "" : cat(bytes_, " bytes of "),
        "offloaded tensors: ", std::strerror(error), ". Name a folder with room by layout.offload_folder."));
  }

  std::string folder_;
  std::size_t bytes_;
  char* buffer_;
  tensor::PinnedRing& ring_;
  int file_ = -1;
};

OffloadStore::OffloadStore(std::string folder, at::Device device)
    : folder_(std::move(folder)), device_(device) {
  if (folder_.empty()) return;
  buffer_.reset(static_cast<char*>(std::aligned_alloc(kPage, kChunk)));
  TESSERA_CHECK(buffer_, "no memory for a buffer of ", kChunk, " bytes");
  File(folder_, 0, buffer_.get(), ring_);  // one that can't be written to is told at once
}
OffloadStore::~OffloadStore() = default;

OffloadStore::Stored& OffloadStore::stored(const OffloadKey& key, at::IntArrayRef shape,
                                           at::ScalarType dtype) {
  Stored& out = places_[key];
  out.shape = {shape.begin(), shape.end()};
  out.dtype = dtype;
  std::size_t bytes = c10::elementSize(dtype);
  for (const auto size : shape) bytes *= static_cast<std::size_t>(size);
  if (out.place && out.place->capacity() >= bytes) return out;
  out.place.reset();
  if (!folder_.empty())
    out.place = std::make_unique<File>(folder_, bytes, buffer_.get(), ring_);
  else if (device_.is_cpu())
    out.place = std::make_unique<Memory>(bytes);
  else
    out.place = std::make_unique<Pinned>(bytes);
  return out;
}

void OffloadStore::put(const OffloadKey& key, const Tensor& t) {
  TESSERA_CHECK(t.defined() && t.is_contiguous(), "what is offloaded is not there, or not dense");
  stored(key, t.sizes(), t.scalar_type()).place->write(t);
}

void OffloadStore::put_zeros(const OffloadKey& key, at::IntArrayRef shape, at::ScalarType dtype) {
  TESSERA_CHECK(!has(key), "zeros without writing are those of a new place");
  stored(key, shape, dtype);
}

Tensor OffloadStore::get(const OffloadKey& key) {
  const auto found = places_.find(key);
  TESSERA_CHECK(found != places_.end(), "what is fetched was never offloaded");
  Tensor out = tensor::empty(found->second.shape, found->second.dtype, device_);
  found->second.place->read(out);
  return out;
}

}  // namespace tessera::shard
