/** Something that all tests of a file share: created before the first test, disposed after the last. */
import { after } from 'node:test'

export async function shared<T extends AsyncDisposable>(starting: Promise<T>): Promise<T> {
  const thing = await starting
  after(() => thing[Symbol.asyncDispose]())
  return thing
}
