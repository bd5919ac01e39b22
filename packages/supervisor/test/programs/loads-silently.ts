// Fills its memory for four seconds without a word, as a server that reads its weights does. Then it is ready.
const weights: Buffer[] = []
const timer = setInterval(() => {
  weights.push(Buffer.alloc(12 * 1024 * 1024, 1))
  if (weights.length < 20) return
  clearInterval(timer)
  process.stdout.write('ready\n')
  setInterval(() => weights.length, 60_000)
}, 200)
