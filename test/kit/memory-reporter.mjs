/**
 * Loaded into a program by `NODE_OPTIONS`: at SIGUSR2 the program prints how many bytes it still uses after a garbage
 * collection, as a line of JSON. Its resident memory would depend on the machine and on when V8 last cleaned up.
 */
let report = 0

process.on('SIGUSR2', () => {
  globalThis.gc()
  // The memory of buffers is given back after the collection that found them unused.
  setImmediate(() => {
    globalThis.gc()
    const { heapUsed, external } = process.memoryUsage()
    process.stdout.write(`${JSON.stringify({ event: 'memory', report: ++report, bytes: heapUsed + external })}\n`)
  })
})
