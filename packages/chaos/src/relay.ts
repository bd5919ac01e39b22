/** Forwards one connection through toxics, both ways. When one side ends it, so does the other. */
import { Socket } from 'node:net'
import { type Duplex, pipeline, type Transform } from 'node:stream'
import { randomSequence, randomOf } from './random.ts'
import { type Link, type Toxic, toxicStage } from './toxics.ts'

export function relay(
  client: Socket,
  server: Duplex,
  toxics: readonly Toxic[],
  seed: number,
  connection: number,
): void {
  const chosen = toxics.filter((toxic, i) => randomOf(seed, 'toxic', connection, i) < toxic.toxicity)
  let isClosing = false
  const link: Link = {
    // What has been forwarded is still delivered, then the connection is closed on both sides.
    close: () => {
      isClosing = true
      client.end(() => client.destroy())
      server.destroy()
    },
    reset: () => {
      isClosing = true
      client.resetAndDestroy()
      server.destroy()
    },
  }
  const stages = (stream: Toxic['stream']): Transform[] =>
    chosen
      .filter((toxic) => toxic.stream === stream)
      .map((toxic, i) => toxicStage(toxic, link, randomSequence(seed, connection, stream, i)))

  // An error on one side resets the other, as TCP would. These listeners must come before those of the pipelines, which
  // would close the other side normally.
  server.once('error', () => client.resetAndDestroy())
  client.once('error', () => (server instanceof Socket ? server.resetAndDestroy() : server.destroy()))
  const onEnd = (error: NodeJS.ErrnoException | null): void => {
    if (error === null || isClosing) return
    client.destroy()
    server.destroy()
  }
  pipeline([client, ...stages('upstream'), server], onEnd)
  pipeline([server, ...stages('downstream'), client], onEnd)
}
