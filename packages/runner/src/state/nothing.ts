/** A socket in the file system that nobody listens on: what is mounted where nothing may be made. */
import { linkSync, lstatSync, rmSync } from 'node:fs'
import { createServer } from 'node:net'
import { join } from 'node:path'
import { openFolder } from '../files/walk.ts'

export async function makeNothing(stateDir: string): Promise<string> {
  const path = join(stateDir, 'nothing')
  if (lstatSync(path, { throwIfNoEntry: false })?.isSocket() === true) return path
  rmSync(path, { force: true })
  rmSync(`${path}.new`, { force: true })
  using folder = openFolder(stateDir, [])
  const server = createServer()
  // By descriptor: the name of a socket may have 108 bytes only, and a state folder can be deeper than that.
  await new Promise<void>((resolve, reject) => {
    server.once('error', reject).listen({ path: folder.at('nothing.new') }, resolve)
  })
  linkSync(`${path}.new`, path) // closing removes the name that it was made under
  await new Promise((resolve) => void server.close(resolve))
  return path
}
