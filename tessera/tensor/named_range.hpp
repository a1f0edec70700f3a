// A name for what a thread does, for profilers: LibTorch's own see it beside the kernels, and NVTX by them.
#pragma once

#include <functional>
#include <memory>
#include <string>

namespace at {
struct RecordFunction;
}

namespace tessera::tensor {

// From its making to its end. The name is made only if somebody looks.
class NamedRange {
 public:
  explicit NamedRange(const std::function<std::string()>& name);
  ~NamedRange();
  NamedRange(const NamedRange&) = delete;
  NamedRange& operator=(const NamedRange&) = delete;

 private:
  std::string name_;
  std::unique_ptr<at::RecordFunction> range_;
};

}  // namespace tessera::tensor
