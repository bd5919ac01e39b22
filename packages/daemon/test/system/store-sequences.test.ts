/** Whatever is done to a store, in whatever order, it holds what a simple model of it holds. */
import { sqliteAdapter } from '../conformance/sqlite-adapter.ts'
import { storeSequences } from '../conformance/store-suite.ts'

storeSequences(sqliteAdapter)
