#include "tessera/shard/depot.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>

#include "tessera/base/error.hpp"
#include "tessera/tensor/account.hpp"

namespace tessera::shard {

using tensor::Tensor;

// Room for bytes outside.
class Depot::Place {
 public:
  virtual ~Place() = default;
  virtual std::size_t capacity() const = 0;
  virtual void write(const Tensor& t) = 0;  // dense
  virtual void read(Tensor& t) = 0;         // dense
};

// Pages of their own, from the system: what a rank's allocator counts is what it holds.
class Depot::Memory final : public Depot::Place {
 public:
  explicit Memory(std::size_t bytes) : bytes_(bytes) {
    pages_ = ::mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (pages_ == MAP_FAILED)
      throw UserError(cat("no host memory for ", bytes_, " bytes of offloaded tensors: ",
                          std::strerror(errno), ". Name a folder for files by layout.offload_folder."));
    account_.add(tensor::Category::host, static_cast<std::int64_t>(bytes_));
  }
  ~Memory() override {
    ::munmap(pages_, bytes_);
    account_.add(tensor::Category::host, -static_cast<std::int64_t>(bytes_));
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

// A file without a name.
class Depot::File final : public Depot::Place {
 public:
  File(const std::string& folder, std::size_t bytes) : folder_(folder), bytes_(bytes) {
    std::string path = cat(folder, "/tessera-offload-XXXXXX");
    file_ = ::mkostemp(path.data(), O_CLOEXEC);
    if (file_ < 0 || ::unlink(path.c_str()) != 0 || ::ftruncate(file_, static_cast<off_t>(bytes_)) != 0)
      fail("make a file");
  }
  ~File() override { ::close(file_); }
  File(const File&) = delete;
  File& operator=(const File&) = delete;
  std::size_t capacity() const override { return bytes_; }

  void write(const Tensor& t) override {
    const Tensor here = t.cpu();
    const auto* data = static_cast<const char*>(here.const_data_ptr());
    for (std::size_t done = 0; done < here.nbytes();) {
      const ssize_t n = ::pwrite(file_, data + done, here.nbytes() - done, static_cast<off_t>(done));
      if (n < 0 && errno == EINTR) continue;
      if (n <= 0) fail("write");
      done += static_cast<std::size_t>(n);
    }
  }

  void read(Tensor& t) override {
    Tensor here = t.is_cpu() ? t : tensor::empty(t.sizes(), t.scalar_type());
    auto* data = static_cast<char*>(here.mutable_data_ptr());
    for (std::size_t done = 0; done < here.nbytes();) {
      const ssize_t n = ::pread(file_, data + done, here.nbytes() - done, static_cast<off_t>(done));
      if (n < 0 && errno == EINTR) continue;
      if (n <= 0) fail("read");
      done += static_cast<std::size_t>(n);
    }
    if (!t.is_cpu()) t.copy_(here);
  }

 private:
  [[noreturn]] void fail(const char* what) const {
    throw UserError(cat("cannot ", what, " in the folder '", folder_, "' for ", bytes_,
                        " bytes of offloaded tensors: ", std::strerror(errno),
                        ". Name a folder with room by layout.offload_folder."));
  }

  std::string folder_;
  std::size_t bytes_;
  int file_ = -1;
};

Depot::Depot(std::string folder) : folder_(std::move(folder)) {}
Depot::~Depot() = default;

Depot::Stored& Depot::stored(const DepotKey& key, at::IntArrayRef shape, at::ScalarType dtype) {
  Stored& out = places_[key];
  out.shape = {shape.begin(), shape.end()};
  out.dtype = dtype;
  std::size_t bytes = c10::elementSize(dtype);
  for (const auto size : shape) bytes *= static_cast<std::size_t>(size);
  if (out.place && out.place->capacity() >= bytes) return out;
  out.place.reset();
  if (folder_.empty())
    out.place = std::make_unique<Memory>(bytes);
  else
    out.place = std::make_unique<File>(folder_, bytes);
  return out;
}

void Depot::put(const DepotKey& key, const Tensor& t) {
  CHECK(t.defined() && t.is_contiguous(), "what is offloaded is not there, or not dense");
  stored(key, t.sizes(), t.scalar_type()).place->write(t);
}

void Depot::put_zeros(const DepotKey& key, at::IntArrayRef shape, at::ScalarType dtype) {
  CHECK(!has(key), "zeros without writing are those of a new place");
  stored(key, shape, dtype);
}

Tensor Depot::get(const DepotKey& key, at::Device device) {
  const auto found = places_.find(key);
  CHECK(found != places_.end(), "what is fetched was never offloaded");
  Tensor out = tensor::empty(found->second.shape, found->second.dtype, device);
  found->second.place->read(out);
  return out;
}

}  // namespace tessera::shard
