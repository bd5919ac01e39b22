/** For Breakfall's own packages. Not public: it may change in any release. */
export { RUNTIME_PROGRAMS } from './home/runtimes.ts'
export { APPARMOR_FIX } from './isolation/missing-capabilities.ts'
export { backgroundOnDisk, type BackgroundOnDisk } from './box/background-on-disk.ts'
export { runnerIdIn } from './host/identity.ts'
