/** Stands for an object of which there is one in each process: every call goes to the object of the running process. */
import { here, type Process } from './time.ts'

export function ofProcess<T extends object>(make: () => T): T {
  const all = new WeakMap<Process, T>()
  const own = (): T => {
    const process = here()
    const made = all.get(process) ?? make()
    all.set(process, made)
    return made
  }
  return new Proxy(make(), {
    get: (_target, name) => {
      const it = own()
      const member: unknown = Reflect.get(it, name, it)
      return typeof member === 'function' ? member.bind(it) : member
    },
  })
}
