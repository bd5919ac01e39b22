/** Serves until somebody asks us to end. The second time we are asked, we leave at once. */

export function untilAsked(): Promise<NodeJS.Signals> {
  return new Promise((resolve) => {
    const asked = (signal: NodeJS.Signals): void => {
      resolve(signal)
      process.once(signal, () => process.exit(130))
    }
    process.once('SIGINT', asked)
    process.once('SIGTERM', asked)
  })
}
