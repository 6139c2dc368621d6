// For `mutool run`: give a PDF an action on opening. Arguments: input, output, options of writing, kind of action.
var doc = new PDFDocument(scriptArgs[0]);
var action = doc.newDictionary();
action.put("S", doc.newName(scriptArgs[3]));
if (scriptArgs[3] == "JavaScript") action.put("JS", doc.newString("app.alert(1)"));
if (scriptArgs[3] == "URI") action.put("URI", doc.newString("http://127.0.0.1:9/"));
doc.getTrailer().get("Root").put("OpenAction", doc.addObject(action));
doc.save(scriptArgs[1], scriptArgs[2]);
