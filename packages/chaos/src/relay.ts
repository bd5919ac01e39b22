/** One connection passed on through toxics, both ways. Ends as a whole: what one side does, the other side sees. */
import { Socket } from 'node:net'
import { type Duplex, pipeline, type Transform } from 'node:stream'
import { diceFor, throwDice } from './dice.ts'
import { type Link, type Toxic, toxicStage } from './toxics.ts'

export function relay(
  client: Socket,
  server: Duplex,
  toxics: readonly Toxic[],
  seed: number,
  connection: number,
): void {
  const chosen = toxics.filter((toxic, i) => throwDice(seed, 'toxic', connection, i) < toxic.toxicity)
  let isClosing = false
  const link: Link = {
    // What has been passed on already is still delivered, then the connection is closed on both sides.
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
      .map((toxic, i) => toxicStage(toxic, link, diceFor(seed, connection, stream, i)))

  // A broken side is shown to the other as TCP would show it. These come before the pipelines' own listeners, which would
  // close the other side politely.
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
