/** Loaded with `node --import`: a machine whose clock is wrong by SKEW_MS milliseconds. The monotonic clock is right, as it would be. */
const skew = Number(process.env['SKEW_MS'] ?? 0)
const { now } = Date
Date.now = () => now() + skew
globalThis.Date = new Proxy(Date, {
  construct: (target, given, self) => Reflect.construct(target, given.length === 0 ? [now() + skew] : given, self),
})
